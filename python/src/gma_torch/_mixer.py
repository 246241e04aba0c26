# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Gaussian mixture attention as a module, with the parameter names of the C++ module."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gma_torch._attention import (
    State,
    gaussian_mixture_attention,
    gaussian_mixture_attention_step,
    responsibilities,
)
from gma_torch._checks import check_mask, check_tokens, has_values, without_padding
from gma_torch._config import GmaConfig, check_field, check_mixer, require
from gma_torch._positions import PADDING, Rotary, padded_positions
from gma_torch._short_conv import ShortConv
from gma_torch._state import MixerState


class _Heads(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor


class GaussianMixtureAttention(nn.Module):
    """Gaussian mixture attention between learned projections.

    Every key head has a mixture of `num_components` Gaussians over its routing vectors:
    `means` (H, K, D), drawn from N(0, 1); `raw_variances` (H, K, D), with
    `sigma^2 = softplus(raw_variances) + variance_floor`, in (H, 1, D) with
    `covariance_type="tied"` and (H, K, 1) with `"spherical"`; `prior_logits` (H, K), zero.
    They are float32 whatever the module is converted to (float64 in a float64 module), and are not
    to be decayed: see `parameter_groups()`.

    Args:
        hidden_size: width of the tokens.
        num_heads: query heads, a divisor of hidden_size.
        num_components: Gaussians a head.
        num_key_value_heads: a divisor of num_heads; None is num_heads.
        is_causal: token i reads tokens j <= i only.
        use_rotary: rotary positions on query and key.
        rotary_base: base of their wavelengths.
        use_short_conv: depthwise convolution and SiLU on query, key and value.
        short_conv_width: taps of that convolution.
        attention_dropout: probability with which a responsibility is dropped in training.
        covariance_type: which variances differ: `"diag"` by component and channel, `"tied"` by
            channel, `"spherical"` by component.
        initial_variance: sigma^2 at the start; None is 4 sqrt(head size), so that every token first
            takes part in many components.
        variance_floor: least sigma^2.
        eps: added to the normaliser.
        bias: whether the projections have biases. The C++ module has none.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.

    >>> attention = GaussianMixtureAttention(32, 4, num_components=8, is_causal=True)
    >>> attention(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        num_components: int = 64,
        num_key_value_heads: int | None = None,
        is_causal: bool = False,
        use_rotary: bool = True,
        rotary_base: float = 10000.0,
        use_short_conv: bool = False,
        short_conv_width: int = 4,
        attention_dropout: float = 0.0,
        covariance_type: str = "diag",
        initial_variance: float | None = None,
        variance_floor: float = 1e-4,
        eps: float = 1e-6,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        options = {
            "hidden_size": hidden_size,
            "num_heads": num_heads,
            "num_key_value_heads": num_key_value_heads or 0,
            "use_rotary": use_rotary,
            "rotary_base": rotary_base,
            "short_conv_width": short_conv_width,
            "attention_dropout": attention_dropout,
            "num_components": num_components,
            "covariance_type": covariance_type,
            "initial_variance": initial_variance or 0.0,
            "variance_floor": variance_floor,
            "eps": eps,
        }
        flags = {"is_causal": is_causal, "use_short_conv": use_short_conv, "bias": bias}
        kinds = {name: type(GmaConfig.__dataclass_fields__[name].default) for name in options}
        for name, value in (options | flags).items():
            check_field(name, kinds.get(name, bool), value)
        check_mixer(**options)  # type: ignore[arg-type]

        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.num_key_value_heads = num_key_value_heads or num_heads
        self.head_size = hidden_size // num_heads
        self.num_components = num_components
        self.is_causal = is_causal
        self.attention_dropout = attention_dropout
        self.covariance_type = covariance_type
        self.initial_variance = initial_variance or 4 * math.sqrt(self.head_size)
        self.variance_floor = variance_floor
        self.eps = eps
        self.rotary = Rotary(self.head_size, rotary_base) if use_rotary else None

        key_size = self.num_key_value_heads * self.head_size
        sizes = {"q": hidden_size, "k": key_size, "v": key_size}
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias, device=device, dtype=dtype)
        self.k_proj = nn.Linear(hidden_size, key_size, bias, device=device, dtype=dtype)
        self.v_proj = nn.Linear(hidden_size, key_size, bias, device=device, dtype=dtype)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias, device=device, dtype=dtype)
        for stream, size in sizes.items():
            conv = (
                ShortConv(size, short_conv_width, is_causal, device=device, dtype=dtype)
                if use_short_conv
                else None
            )
            self.register_module(f"{stream}_conv", conv)

        heads, components = self.num_key_value_heads, num_components
        rows = 1 if covariance_type == "tied" else components
        columns = 1 if covariance_type == "spherical" else self.head_size
        wide = _accumulate_dtype(dtype or torch.get_default_dtype())

        def mixture_parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=wide))

        self.means = mixture_parameter(heads, components, self.head_size)
        self.raw_variances = mixture_parameter(heads, rows, columns)
        self.prior_logits = mixture_parameter(heads, components)
        self.reset_mixture()

    @classmethod
    def from_config(
        cls,
        config: GmaConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> GaussianMixtureAttention:
        """The mixer of a model of this config."""
        return cls(
            **config.mixer_checks(),
            is_causal=config.is_causal,
            use_short_conv=config.use_short_conv,
            device=device,
            dtype=dtype,
        )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]
        self.reset_mixture()

    def reset_mixture(self) -> None:
        """Draws the means from N(0, 1), and resets variances and priors."""
        # The inverse of softplus, without overflow for large y or cancellation for small.
        y = self.initial_variance - self.variance_floor
        nn.init.normal_(self.means)
        nn.init.constant_(self.raw_variances, y + math.log(-math.expm1(-y)))
        nn.init.zeros_(self.prior_logits)

    @property
    def variances(self) -> Tensor:
        """sigma^2, of the shape of raw_variances."""
        # Above the threshold softplus is the identity; the default of 20 would show in float64.
        return nn.functional.softplus(self.raw_variances, threshold=40) + self.variance_floor

    def no_decay_parameters(self) -> list[nn.Parameter]:
        """Parameters that must not be decayed beyond biases and norms: the mixture's."""
        return [self.means, self.raw_variances, self.prior_logits]

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        key_padding_mask: Tensor | None = None,
        state: MixerState | None = None,
    ) -> Tensor:
        """Attention of the tokens x to themselves, or to those of a context.

        Args:
            x: (B, Tq, hidden_size) in the dtype of the weights, or of any that autocast takes.
            context: (B, Tk, hidden_size) that keys and values come from, for cross-attention;
                needs `is_causal=False`.
            key_padding_mask: (B, Tk) bool, True = keep. Kept tokens are numbered from 0 whatever
                the padding.
            state: from `initial_state()`, causal only. x continues the sequences that it has
                seen, and it moves on past x. A mask is then legal in the first call only, with the
                padding in front. Whatever is raised, the state is as it was.

        Returns:
            (B, Tq, hidden_size).
        """
        if context is not None:
            return self._forward_cross(x, context, key_padding_mask, state)
        check_tokens("x", x, self.hidden_size, self.q_proj.weight)
        check_mask("key_padding_mask", key_padding_mask, x.size(0), x.size(1), x.device)
        if state is None:
            heads = self._project(x, key_padding_mask)
            return self._merge(self._attend(heads, key_padding_mask, None))

        if not self.is_causal:
            raise ValueError("state: expected None unless is_causal, got one")
        _check_state(state, key_padding_mask, x)
        # The caller's state moves on only once nothing can be refused any more.
        following = MixerState(dict(state.tensors), state.position)
        heads = self._project(x, key_padding_mask, following)
        if key_padding_mask is not None:
            following.tensors[PADDING] = x.size(1) - key_padding_mask.sum(1)
        output = self._merge(self._attend(heads, key_padding_mask, following))
        following.position += x.size(1)
        state.replace_with(following)
        return output

    def initial_state(self, batch_size: int) -> MixerState:
        """The state before the first token; needs `is_causal=True`."""
        check_field("batch_size", int, batch_size)
        require(batch_size >= 0, "batch_size", "at least 0", batch_size)
        if not self.is_causal:
            raise ValueError("initial_state: expected a module with is_causal=True, got False")
        tensors: dict[str, Tensor] = {}
        if isinstance(self.q_conv, ShortConv):
            assert isinstance(self.k_conv, ShortConv) and isinstance(self.v_conv, ShortConv)
            tensors["conv_query"] = self.q_conv.initial_tail(batch_size)
            tensors["conv_key"] = self.k_conv.initial_tail(batch_size)
            tensors["conv_value"] = self.v_conv.initial_tail(batch_size)
        weight = self.q_proj.weight
        wide = _accumulate_dtype(weight.dtype)
        shape = (batch_size, self.num_key_value_heads, self.num_components, self.head_size)
        tensors["s"] = torch.zeros(shape, device=weight.device, dtype=wide)
        tensors["z"] = torch.zeros(shape[:3], device=weight.device, dtype=wide)
        return MixerState(tensors)

    def responsibilities(
        self, x: Tensor, *, key_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Which component each token uses, as a query (B, T, num_heads, K) and as a key
        (B, T, num_key_value_heads, K)."""
        check_tokens("x", x, self.hidden_size, self.q_proj.weight)
        check_mask("key_padding_mask", key_padding_mask, x.size(0), x.size(1), x.device)
        query, key, _ = self._project(x, key_padding_mask)
        group = self.num_heads // self.num_key_value_heads
        mixture = (self.means, self.variances, self.prior_logits)
        grouped = [parameter.repeat_interleave(group, 0) for parameter in mixture]
        return responsibilities(query, *grouped), responsibilities(key, *mixture)

    @torch.no_grad()
    def initialize_means(self, x: Tensor, *, key_padding_mask: Tensor | None = None) -> None:
        """Replaces the means by routing vectors of the tokens x (B, T, hidden_size), spread by
        k-means++ seeding with torch's generator. Raises ValueError for fewer vectors than
        components, or vectors that are not finite."""
        check_tokens("x", x, self.hidden_size, self.q_proj.weight)
        check_mask("key_padding_mask", key_padding_mask, x.size(0), x.size(1), x.device)
        query, key, _ = self._project(x, key_padding_mask)
        # (tokens, Hk, vectors, D): a mixture routes the queries of its whole group, and its keys.
        group = self.num_heads // self.num_key_value_heads
        queries = query.reshape(-1, self.num_key_value_heads, group, self.head_size)
        vectors = torch.cat((queries, key.flatten(0, 1).unsqueeze(2)), 2)
        if key_padding_mask is not None:
            vectors = vectors[key_padding_mask.flatten()]
        points = vectors.transpose(0, 1).flatten(1, 2).to(self.means.dtype)
        if points.size(1) < self.num_components:
            raise ValueError(
                f"x: expected at least num_components ({self.num_components}) routing vectors a "
                f"head, got {points.size(1)}"
            )
        if not points.isfinite().all():
            raise ValueError("x: expected finite routing vectors, got NaN or Inf")
        points_per_component = 64
        most = points_per_component * self.num_components
        if points.size(1) > most:
            points = points[:, torch.randperm(points.size(1))[:most].to(points.device)]
        self.means.copy_(_spread_points(points, self.num_components))

    def _forward_cross(
        self, x: Tensor, context: Tensor, mask: Tensor | None, state: MixerState | None
    ) -> Tensor:
        check_tokens("x", x, self.hidden_size, self.q_proj.weight)
        check_tokens("context", context, self.hidden_size, self.q_proj.weight)
        if x.size(0) != context.size(0):
            raise ValueError(
                f"context: expected the batch size of x ({x.size(0)}), got {context.size(0)}"
            )
        check_mask("key_padding_mask", mask, context.size(0), context.size(1), context.device)
        if self.is_causal:
            raise ValueError("context: expected None in a module with is_causal=True, got one")
        if state is not None:
            raise ValueError("state: expected None beside a context, got one")
        context = without_padding(context, mask)
        heads = _Heads(
            self._rotated(self._stream("q", x, None), None, None),
            self._rotated(self._stream("k", context, None), mask, None),
            self._stream("v", context, None),
        )
        return self._merge(self._attend(heads, mask, None))

    def _project(self, x: Tensor, mask: Tensor | None, state: MixerState | None = None) -> _Heads:
        """Everything before attention. Moves the tails of the convolutions on in `state`."""
        x = without_padding(x, mask)
        return _Heads(
            self._rotated(self._stream("q", x, state), mask, state),
            self._rotated(self._stream("k", x, state), mask, state),
            self._stream("v", x, state),
        )

    def _stream(self, stream: str, x: Tensor, state: MixerState | None) -> Tensor:
        """One of q, k, v: x projected, convolved and split into heads."""
        projected: Tensor = self.get_submodule(f"{stream}_proj")(x)
        conv = getattr(self, f"{stream}_conv")
        if conv is not None and state is not None:
            tail = {"q": "conv_query", "k": "conv_key", "v": "conv_value"}[stream]
            projected, state.tensors[tail] = conv.forward_after(projected, state[tail])
        elif conv is not None:
            projected = conv(projected)
        heads = projected.size(2) // self.head_size
        return projected.view(x.size(0), x.size(1), heads, self.head_size)

    def _rotated(self, heads: Tensor, mask: Tensor | None, state: MixerState | None) -> Tensor:
        if self.rotary is None:
            return heads
        positions = padded_positions(heads.size(1), mask, state)
        return self.rotary.rotate(heads, positions, 0 if state is None else state.position)

    def _attend(self, heads: _Heads, mask: Tensor | None, state: MixerState | None) -> Tensor:
        """The output of every query head, (B, Tq, H, D)."""
        mixture = (self.means, self.variances, self.prior_logits)
        sums = None if state is None else self._sums(state, heads.key.size(0))
        drops = self.training and self.attention_dropout > 0
        is_step = heads.query.size(1) == 1 and mask is None
        if sums is not None and is_step and not drops and not torch.is_grad_enabled():
            output, following = gaussian_mixture_attention_step(
                *heads, *mixture, sums, eps=self.eps
            )
        else:
            output, final = gaussian_mixture_attention(
                *heads,
                *mixture,
                is_causal=self.is_causal,
                key_padding_mask=mask,
                initial_state=sums,
                return_state=sums is not None,
                eps=self.eps,
                dropout_p=self.attention_dropout if drops else 0.0,
            )
            if final is None:
                return output
            following = final
        assert state is not None
        state.tensors["s"], state.tensors["z"] = following
        return output

    def _sums(self, state: MixerState, batch_size: int) -> State:
        shape = [batch_size, self.num_key_value_heads, self.num_components, self.head_size]
        wide = _accumulate_dtype(self.q_proj.weight.dtype)
        for name, expected in (("s", shape), ("z", shape[:3])):
            if state[name].dtype != wide:
                raise TypeError(f"state: expected {name!r} in {wide}, got {state[name].dtype}")
            if list(state[name].shape) != expected:
                raise ValueError(
                    f"state: expected {name!r} of shape {expected}, got {list(state[name].shape)}"
                )
        return State(state["s"], state["z"])

    def _merge(self, output: Tensor) -> Tensor:
        merged: Tensor = self.o_proj(output.flatten(2))
        return merged

    def _apply(
        self, fn: Callable[[Tensor], Tensor], recurse: bool = True
    ) -> GaussianMixtureAttention:
        """What to(), half(), cuda() and the like come down to: the mixture follows to devices and
        to float64, but not to narrow dtypes."""

        def keep_wide(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if not moved.is_floating_point() or moved.dtype in (torch.float32, torch.float64):
                return moved
            return tensor.to(moved.device, torch.float32)

        if recurse:
            for module in self.children():
                module._apply(fn)  # type: ignore[no-untyped-call]
        super()._apply(keep_wide, recurse=False)  # type: ignore[no-untyped-call]
        return self

    def extra_repr(self) -> str:
        return (
            f"num_heads={self.num_heads}, num_key_value_heads={self.num_key_value_heads}, "
            f"num_components={self.num_components}, covariance_type={self.covariance_type!r}, "
            f"is_causal={self.is_causal}, use_rotary={self.rotary is not None}"
        )


def _accumulate_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of sums, and of the mixture, in a module of this dtype."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _check_state(state: MixerState, mask: Tensor | None, x: Tensor) -> None:
    if not isinstance(state, MixerState):
        raise TypeError(f"state: expected a MixerState, got {type(state).__name__}")
    for name, tensor in state.tensors.items():
        if tensor.dim() == 0 or tensor.size(0) != x.size(0):
            raise ValueError(
                f"state: expected the batch size of x ({x.size(0)}), got {name!r} of shape "
                f"{list(tensor.shape)}"
            )
    if mask is None:
        return
    if state.position != 0:
        raise ValueError(
            "key_padding_mask: expected None after the first tokens of a state, got one at "
            f"position {state.position}"
        )
    if has_values(mask) and (mask[:, :-1] & ~mask[:, 1:]).any():
        raise ValueError("key_padding_mask: expected padding in front beside a state, got it behind")


def _spread_points(points: Tensor, count: int) -> Tensor:
    """points (H, N, D) to `count` of them a head, (H, count, D): each is drawn with a probability
    proportional to its squared distance from the nearest one chosen before."""
    heads, _, size = points.shape
    weights = points.new_ones(heads, points.size(1))
    chosen: list[Tensor] = []
    for _ in range(count):
        # Nothing is left to tell apart once every point coincides with a chosen one.
        usable = torch.where(weights.sum(1, keepdim=True) > 0, weights, 1.0)
        index = torch.multinomial(usable, 1).unsqueeze(-1).expand(heads, 1, size)
        chosen.append(points.gather(1, index))
        distance = (points - chosen[-1]).square().sum(-1)
        weights = distance if len(chosen) == 1 else torch.minimum(weights, distance)
    return torch.cat(chosen, 1)
