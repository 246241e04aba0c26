# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Swaps the attention of a model that exists for Gaussian mixture attention."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gma_torch._checks import has_values
from gma_torch._config import check_field, require
from gma_torch._mixer import GaussianMixtureAttention


def replace_attention(
    model: nn.Module,
    *,
    layers: Iterable[int] | None = None,
    is_causal: bool = False,
    sample: Mapping[str, Any] | None = None,
    num_components: int = 64,
    use_rotary: bool = False,
    **options: Any,
) -> list[str]:
    """Swaps attention modules of `model`, in place, for Gaussian mixture attention, and keeps their
    projections: `nn.MultiheadAttention`, and the self-attention of GPT-2 as transformers has it.
    The mixtures are new, so the model wants to be trained on.

    Args:
        model: with such modules in it, at any depth.
        layers: which of them, counted from 0 in the order of `model.named_modules()`; None is all.
            The rest keeps its attention.
        is_causal: for `nn.MultiheadAttention`, which is told in each call; GPT-2 is causal. The
            cross-attention of an `nn.TransformerDecoderLayer` never is.
        sample: keyword arguments of a call of the model. It is run once on them, and the means start
            as routing vectors of its tokens: see `GaussianMixtureAttention.initialize_means()`.
        num_components: Gaussians a head.
        use_rotary: rotary positions, for models that have no positions else.
        **options: others of `GaussianMixtureAttention`.

    Returns:
        The names of the modules that were swapped; a shared one has several.

    Raises:
        ValueError, TypeError: for a model without such modules inside, for a layer that there is
            not, and for a module whose projections cannot be kept.

    Swapped modules return no attention weights, and GPT-2 generates without a cache. Frozen
    projections stay frozen; mixtures are trainable. `from_pretrained()` builds the attention that a
    model had: swap it again, then load the state dict.

    >>> layer = nn.TransformerEncoderLayer(32, 4, batch_first=True)
    >>> replace_attention(layer, num_components=8)
    ['self_attn']
    >>> layer(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 32])
    """
    found = [
        (name, module, convert)
        for name, module in model.named_modules()
        for kind, convert in _converters()
        if isinstance(module, kind) and not getattr(module, "is_cross_attention", False)
    ]
    if found and found[0][1] is model:
        raise ValueError(
            f"model: expected attention inside of a model, got a {type(model).__name__} itself, which "
            "cannot be swapped in place: build a GaussianMixtureAttention"
        )
    if not found:
        raise ValueError(
            "model: expected nn.MultiheadAttention or the self-attention of GPT-2 in it, got a "
            f"{type(model).__name__} without"
        )
    if layers is not None:
        if not isinstance(layers, Iterable):
            raise TypeError(f"layers: expected ints or None, got {type(layers).__name__}")
        chosen = list(layers)
        for layer in chosen:
            check_field("layers", int, layer)
            require(0 <= layer < len(found), "layers", f"in [0, {len(found)})", layer)
        found = [found[layer] for layer in sorted(set(chosen))]
    options |= {"num_components": num_components, "use_rotary": use_rotary, "is_causal": is_causal}
    crossing = {
        id(layer.multihead_attn)
        for layer in model.modules()
        if isinstance(layer, nn.TransformerDecoderLayer)
    }
    replacements = {
        module: convert(module, options | ({"is_causal": False} if id(module) in crossing else {}))
        for _, module, convert in found
    }
    for encoder in model.modules():
        # Its fast path packs padded batches into nested tensors, for attention of its own kind.
        if isinstance(encoder, nn.TransformerEncoder) and not replacements.keys().isdisjoint(
            encoder.modules()
        ):
            encoder.use_nested_tensor = False
    if sample is not None:
        _initialize_means(model, replacements, sample)
    names = [
        name
        for name, module in model.named_modules(remove_duplicate=False)
        if module in replacements
    ]
    for name, replacement in [(name, replacements[model.get_submodule(name)]) for name in names]:
        model.set_submodule(name, replacement)
    for config in (getattr(model, "config", None), getattr(model, "generation_config", None)):
        if config is not None and hasattr(config, "use_cache"):
            config.use_cache = False
    return names


class _Adapter(nn.Module):
    """Gaussian mixture attention behind the signature of another module."""

    def __init__(self, attention: GaussianMixtureAttention) -> None:
        super().__init__()
        self.attention = attention


class MultiheadAttentionAdapter(_Adapter):
    """The signature of `nn.MultiheadAttention`."""

    # nn.TransformerEncoderLayer asks, before it takes a path of its own past forward().
    in_proj_bias = None
    _qkv_same_embed_dim = False

    def __init__(self, attention: GaussianMixtureAttention, batch_first: bool) -> None:
        super().__init__(attention)
        self.batch_first = batch_first

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        if key is not value:
            raise ValueError("value: expected the tensor that key is, got another one")
        if (attn_mask is not None or is_causal) and not self.attention.is_causal:
            raise ValueError(
                "attn_mask: expected None in a module converted with is_causal=False, got one"
            )
        if attn_mask is not None and not is_causal:
            masked = attn_mask if attn_mask.dtype == torch.bool else ~_kept("attn_mask", attn_mask)
            future = torch.ones_like(masked).triu(1)
            _expect((masked == future).all(), "attn_mask: expected a causal one, got another one")
        mask = key_padding_mask
        if mask is not None:
            mask = ~mask if mask.dtype == torch.bool else _kept("key_padding_mask", mask)
        context = None if query is key else key
        if not self.batch_first:
            query = query.transpose(0, 1)
            context = None if context is None else context.transpose(0, 1)
        output = self.attention(query, context, key_padding_mask=mask)
        return output if self.batch_first else output.transpose(0, 1), None


class Gpt2AttentionAdapter(_Adapter):
    """The signature of transformers' GPT2Attention, self-attention."""

    def __init__(self, attention: GaussianMixtureAttention, dropout: nn.Module) -> None:
        super().__init__(attention)
        self.resid_dropout = dropout

    def forward(
        self,
        hidden_states: Tensor,
        cache: object = None,
        attention_mask: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        if cache is not None:
            raise ValueError(
                "cache: expected None, as keys and values are not what mixtures keep, got one: call "
                "the model with use_cache=False"
            )
        mask = attention_mask
        if mask is not None:
            mask = _kept("attention_mask", mask) if mask.is_floating_point() else mask.bool()
            mask = _padding_of(mask) if mask.dim() == 4 else mask
        return self.resid_dropout(self.attention(hidden_states, key_padding_mask=mask)), None


def _expect(good: Tensor, message: str) -> None:
    """ValueError with this message unless good, a single bool; in compiled code, what is compiled
    raises a RuntimeError."""
    if torch.compiler.is_compiling():
        torch._assert_async(good, message)
    elif has_values(good) and not good:
        raise ValueError(message)


def _kept(name: str, mask: Tensor) -> Tensor:
    """Where a mask that is added to scores keeps them."""
    if not mask.is_floating_point():
        raise TypeError(f"{name}: expected a bool or floating-point mask, got {mask.dtype}")
    kept = mask == 0
    # As good as -inf: the least number, and what is left of it after a sum with another mask.
    dropped = mask <= torch.finfo(mask.dtype).min / 2
    _expect((kept | dropped).all(), f"{name}: expected 0 or -inf throughout, got other numbers")
    return kept


def _padding_of(kept: Tensor) -> Tensor:
    """The keys (batch, keys) that a causal mask (batch, heads, queries, keys) leaves. Raises
    ValueError for any other mask, as that of packed sequences."""
    # The last query reads every key that is not padding.
    keys = kept[:, 0, -1]
    expected = torch.ones_like(kept).tril() & keys[:, None, None, :]
    # Queries in front that are padding read nothing or, in some versions, everything.
    unread = ~keys[:, None, :, None] & (~kept.any(-1, True) | kept.all(-1, True))
    _expect(
        ((kept == expected) | unread).all(),
        "attention_mask: expected causal attention and padding, got another mask; position_ids that "
        "start anew make one for packed sequences, which are to be passed as rows of a batch",
    )
    return keys


def _converters() -> list[tuple[type[nn.Module], Callable[[Any, dict[str, Any]], _Adapter]]]:
    converters: list[tuple[type[nn.Module], Callable[[Any, dict[str, Any]], _Adapter]]] = [
        (nn.MultiheadAttention, _convert_multihead)
    ]
    # Who has a GPT-2 has loaded this.
    gpt2 = sys.modules.get("transformers.models.gpt2.modeling_gpt2")
    if gpt2 is not None:
        converters.append((gpt2.GPT2Attention, _convert_gpt2))
    return converters


def _make_attention(
    hidden_size: int, num_heads: int, bias: bool, weight: Tensor, options: dict[str, Any]
) -> GaussianMixtureAttention:
    return GaussianMixtureAttention(
        hidden_size, num_heads, bias=bias, device=weight.device, dtype=weight.dtype, **options
    )


@torch.no_grad()
def _copy_projections(
    attention: GaussianMixtureAttention,
    weights: tuple[Tensor, Tensor],
    biases: tuple[Tensor, Tensor] | None,
    is_transposed: bool = False,
) -> None:
    """Weights (3 out, in) and (out, in), and biases, of q, k and v together and of o; what was
    frozen stays so."""
    linears = (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    for name, pair in (("weight", weights), ("bias", biases)):
        if pair is None:
            continue
        joint, output = (tensor.t() if is_transposed else tensor for tensor in pair)
        flags = [pair[0].requires_grad] * 3 + [pair[1].requires_grad]
        for linear, value, flag in zip(linears, (*joint.chunk(3), output), flags, strict=True):
            getattr(linear, name).copy_(value).requires_grad_(flag)


def _convert_multihead(module: nn.MultiheadAttention, options: dict[str, Any]) -> _Adapter:
    for good, expected in (
        (module._qkv_same_embed_dim, "kdim and vdim of embed_dim"),
        (module.bias_k is None, "add_bias_kv=False"),
        (not module.add_zero_attn, "add_zero_attn=False"),
    ):
        require(bool(good), "model", f"nn.MultiheadAttention with {expected}", module)
    options = {"attention_dropout": module.dropout} | options
    weight, bias = module.in_proj_weight, module.in_proj_bias
    attention = _make_attention(
        module.embed_dim, module.num_heads, bias is not None, weight, options
    )
    _copy_projections(
        attention,
        (weight, module.out_proj.weight),
        None if bias is None else (bias, module.out_proj.bias),
    )
    attention.train(module.training)
    return MultiheadAttentionAdapter(attention, module.batch_first)


def _convert_gpt2(module: Any, options: dict[str, Any]) -> _Adapter:
    options = {"attention_dropout": module.attn_dropout.p} | options | {"is_causal": True}
    weight, bias = module.c_attn.weight, module.c_attn.bias
    attention = _make_attention(module.embed_dim, module.num_heads, True, weight, options)
    # Its projections keep their weights as (in, out).
    _copy_projections(
        attention,
        (weight, module.c_proj.weight),
        (bias, module.c_proj.bias),
        is_transposed=True,
    )
    attention.train(module.training)
    return Gpt2AttentionAdapter(attention, module.resid_dropout)


def _initialize_means(
    model: nn.Module, replacements: Mapping[nn.Module, _Adapter], sample: Mapping[str, Any]
) -> None:
    """Means from the tokens that reach each module when the model, as it is, runs on the sample."""
    handles = []
    for module, replacement in replacements.items():

        def hook(
            _module: nn.Module,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            replacement: _Adapter = replacement,
        ) -> None:
            x: Tensor = args[0] if args else kwargs["hidden_states" if "hidden_states" in kwargs else "query"]
            if not getattr(replacement, "batch_first", True):
                x = x.transpose(0, 1)
            replacement.attention.initialize_means(x)

        handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    try:
        with torch.no_grad():
            model(**sample)
    finally:
        for handle in handles:
            handle.remove()
