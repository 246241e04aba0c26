# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""A pre-norm transformer around Gaussian mixture attention: causal language model and sequence
classifier, with the parameter names of the C++ modules."""

from __future__ import annotations

import math
from collections.abc import Iterator
from os import PathLike
from typing import Self

import torch
from torch import Tensor, nn

from gma_torch._checks import check_indices, check_mask, check_tensors
from gma_torch._config import GmaConfig, check_config
from gma_torch._mixer import GaussianMixtureAttention
from gma_torch._positions import Rotary, padded_positions
from gma_torch._short_conv import ShortConv
from gma_torch._state import MixerState, ModelState

_DEVIATION = 0.02


class GmaBlock(nn.Module):
    """x += drop(mixer(norm(x))); x += drop(mlp(norm(x))).

    >>> block = GmaBlock(GmaConfig(hidden_size=32, num_heads=4, num_components=8))
    >>> block(torch.randn(2, 10, 32)).shape
    torch.Size([2, 10, 32])
    """

    def __init__(
        self,
        config: GmaConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_config(config)
        hidden, mlp = config.hidden_size, config.mlp_size or 4 * config.hidden_size
        self.mixer_norm = nn.LayerNorm(hidden, device=device, dtype=dtype)
        self.mixer = GaussianMixtureAttention.from_config(config, device=device, dtype=dtype)
        self.mlp_norm = nn.LayerNorm(hidden, device=device, dtype=dtype)
        self.up = nn.Linear(hidden, mlp, device=device, dtype=dtype)
        self.down = nn.Linear(mlp, hidden, device=device, dtype=dtype)
        self.dropout = nn.Dropout(config.dropout)

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        for module in (self.mixer_norm, self.mixer, self.mlp_norm, self.up, self.down):
            module.reset_parameters()

    def forward(
        self,
        x: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        state: MixerState | None = None,
    ) -> Tensor:
        """x (B, T, hidden_size) to the same shape; the rest as for
        `GaussianMixtureAttention.forward()`."""
        mixed = self.mixer(self.mixer_norm(x), key_padding_mask=key_padding_mask, state=state)
        x = x + self.dropout(mixed)
        hidden: Tensor = self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))
        residual: Tensor = self.dropout(hidden)
        return x + residual


class GmaTransformer(nn.Module):
    """Embeddings, blocks and the last norm: tokens to features."""

    def __init__(
        self,
        config: GmaConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        self.embedding = nn.Embedding(config.vocab_size, hidden, device=device, dtype=dtype)
        self.positions = (
            nn.Embedding(config.max_length, hidden, device=device, dtype=dtype)
            if config.learned_positions
            else None
        )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            GmaBlock(config, device=device, dtype=dtype) for _ in range(config.num_layers)
        )
        self.norm = nn.LayerNorm(hidden, device=device, dtype=dtype)

    def forward(
        self,
        tokens: Tensor,
        *,
        padding_mask: Tensor | None = None,
        state: ModelState | None = None,
    ) -> Tensor:
        """tokens (B, T) int64 to features (B, T, hidden_size). Raises ValueError for ids outside
        the vocabulary (on the CPU; elsewhere torch finds them) and whatever the mixer refuses; a
        state is then as it was."""
        check_tensors(tokens=tokens)
        if tokens.dim() != 2:
            raise ValueError(f"tokens: expected shape (batch, tokens), got {list(tokens.shape)}")
        check_indices("tokens", tokens, self.config.vocab_size)
        check_mask("padding_mask", padding_mask, tokens.size(0), tokens.size(1), tokens.device)
        if state is not None and not isinstance(state, ModelState):
            raise TypeError(f"state: expected a ModelState, got {type(state).__name__}")
        if state is not None and len(state.layers) != len(self.blocks):
            raise ValueError(f"state: expected {len(self.blocks)} layers, got {len(state.layers)}")
        x = self.dropout(self._embed(tokens, padding_mask, state))
        # The caller's state moves on in all layers or in none.
        following = (
            [None] * len(self.blocks)
            if state is None
            else [MixerState(layer.tensors, layer.position) for layer in state.layers]
        )
        for block, layer in zip(self.blocks, following, strict=True):
            x = block(x, key_padding_mask=padding_mask, state=layer)
        if state is not None:
            state.layers = [layer for layer in following if layer is not None]
        features: Tensor = self.norm(x)
        return features

    def initial_state(self, batch_size: int) -> ModelState:
        """The state before the first token, for `batch_size` sequences; causal models only."""
        return ModelState(
            [block.get_submodule("mixer").initial_state(batch_size) for block in self.blocks]  # type: ignore[operator]
        )

    def residual_writers(self) -> Iterator[nn.Module]:
        """The projections whose outputs are added to the residual stream."""
        for block in self.blocks:
            yield block.get_submodule("mixer.o_proj")
            yield block.get_submodule("down")

    def _embed(
        self, tokens: Tensor, padding_mask: Tensor | None, state: ModelState | None
    ) -> Tensor:
        x: Tensor = self.embedding(tokens)
        if self.positions is None and not self.config.sinusoidal_positions:
            return x
        first = 0 if state is None else state.position
        end = first + tokens.size(1)
        layer = None if state is None else state.layers[0]
        positions = padded_positions(tokens.size(1), padding_mask, layer)
        if self.config.sinusoidal_positions:
            x = x + sinusoids(positions, first, x)
        if self.positions is None:
            return x
        if end > self.config.max_length:
            raise ValueError(
                f"tokens: expected to end before max_length ({self.config.max_length}) with "
                f"learned_positions, got position {end}"
            )
        if positions is None:
            return x + self.positions.weight[first:end]
        embedded: Tensor = self.positions(positions)
        return x + embedded


def sinusoids(positions: Tensor | None, first: int, x: Tensor) -> Tensor:
    """Sines and cosines, (1 or B, T, hidden), of the positions (B, T), or from `first` on: what a
    rotation by the position makes of pairs (a, 0). As large as embeddings are at the start."""
    hidden = x.size(2)
    rows = 1 if positions is None else positions.size(0)
    pairs = torch.zeros(rows, x.size(1), 1, hidden, dtype=x.dtype, device=x.device)
    pairs[..., ::2] = _DEVIATION * math.sqrt(2)
    return Rotary(hidden, 10000.0).rotate(pairs, positions, first).squeeze(2)


def initialize_module(module: nn.Module, transformer: GmaTransformer) -> None:
    """Weights of one module of a model: normal of deviation 0.02. Those that write to the residual
    stream are smaller, so that its variance does not grow with the number of layers."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        is_residual = any(module is writer for writer in transformer.residual_writers())
        scale = 1 / math.sqrt(2 * len(transformer.blocks)) if is_residual else 1.0
        nn.init.normal_(module.weight, 0, _DEVIATION * scale)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, GaussianMixtureAttention):
        module.reset_mixture()
    elif isinstance(module, (nn.LayerNorm, ShortConv)):
        module.reset_parameters()


def initialize(model: nn.Module, transformer: GmaTransformer) -> None:
    """initialize_module() for all modules."""
    for module in model.modules():
        initialize_module(module, transformer)


class _Model(nn.Module):
    """A transformer with a head on it: what the models have in common."""

    transformer: GmaTransformer

    @classmethod
    def from_checkpoint(
        cls, path: str | PathLike[str], *, device: torch.device | str | None = None
    ) -> Self:
        """The model of a file or run folder of `gma train`, in evaluation mode. Raises ValueError
        for anything else, a model of the other kind included: see `load_checkpoint()`."""
        from gma_torch._checkpoint import load_model

        return load_model(path, cls, device)

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        initialize(self, self.transformer)


class GmaForCausalLM(_Model):
    """Causal language model: the `gma` program's, weight by weight.

    >>> config = GmaConfig(
    ...     vocab_size=50, hidden_size=32, num_layers=2, num_components=8, is_causal=True
    ... )
    >>> model = GmaForCausalLM(config).eval()
    >>> tokens = torch.randint(50, (2, 10))
    >>> logits = model(tokens)
    >>> logits.shape
    torch.Size([2, 10, 50])
    >>> state = model.initial_state(2)
    >>> parts = [model(tokens[:, :7], state=state), model(tokens[:, 7:], state=state)]
    >>> torch.allclose(torch.cat(parts, 1), logits, atol=1e-4)
    True
    """

    def __init__(
        self,
        config: GmaConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_config(config)
        if not config.is_causal:
            raise ValueError("config.is_causal: expected True in a causal language model, got False")
        self.config = config
        self.transformer = GmaTransformer(config, device=device, dtype=dtype)
        self.head = (
            None
            if config.tie_embeddings
            else nn.Linear(config.hidden_size, config.vocab_size, False, device=device, dtype=dtype)
        )
        self.reset_parameters()

    def forward(
        self,
        tokens: Tensor,
        *,
        padding_mask: Tensor | None = None,
        state: ModelState | None = None,
    ) -> Tensor:
        """Logits of the next token.

        Args:
            tokens: (B, T) int64.
            padding_mask: (B, T) bool, True = keep.
            state: from `initial_state()`; the tokens continue what it has seen, and it moves on
                past them. A mask is then legal in the first call only, with the padding in front.

        Returns:
            (B, T, vocab_size).
        """
        return self.logits(self.features(tokens, padding_mask=padding_mask, state=state))

    def features(
        self,
        tokens: Tensor,
        *,
        padding_mask: Tensor | None = None,
        state: ModelState | None = None,
    ) -> Tensor:
        """forward() without `logits()`, for callers that need those of some positions only."""
        features: Tensor = self.transformer(tokens, padding_mask=padding_mask, state=state)
        return features

    def logits(self, features: Tensor) -> Tensor:
        head = self.transformer.embedding if self.head is None else self.head
        return nn.functional.linear(features, head.weight)

    def initial_state(self, batch_size: int) -> ModelState:
        """The state before the first token, for `batch_size` sequences."""
        return self.transformer.initial_state(batch_size)


class GmaForSequenceClassification(_Model):
    """Sequence classifier: the `gma` program's, weight by weight.

    >>> config = GmaConfig(vocab_size=50, hidden_size=32, num_components=8, num_classes=3)
    >>> model = GmaForSequenceClassification(config)
    >>> model(torch.randint(50, (2, 10)), padding_mask=torch.ones(2, 10, dtype=torch.bool)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        config: GmaConfig,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_config(config)
        if config.num_classes < 2:
            raise ValueError(
                "config.num_classes: expected at least 2 in a sequence classifier, got "
                f"{config.num_classes}"
            )
        self.config = config
        self.transformer = GmaTransformer(config, device=device, dtype=dtype)
        self.head = nn.Linear(config.hidden_size, config.num_classes, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, tokens: Tensor, *, padding_mask: Tensor | None = None) -> Tensor:
        """Logits (B, num_classes) of tokens (B, T) int64, T > 0, from the mean or the first of the
        positions that padding_mask (B, T) bool keeps, as config.pooling has it."""
        check_tensors(tokens=tokens)
        if tokens.dim() == 2 and tokens.size(1) == 0:
            raise ValueError(f"tokens: expected at least one a sequence, got {list(tokens.shape)}")
        features: Tensor = self.transformer(tokens, padding_mask=padding_mask)
        if self.config.pooling == "first":
            pooled = features[:, 0]
            if padding_mask is not None:
                first = padding_mask.long().argmax(1).view(-1, 1, 1)
                pooled = features.gather(1, first.expand(-1, 1, features.size(2))).squeeze(1)
        elif padding_mask is None:
            pooled = features.mean(1)
        else:
            kept = features.masked_fill(padding_mask.logical_not().unsqueeze(-1), 0.0)
            pooled = kept.sum(1) / padding_mask.sum(1, keepdim=True).clamp_min(1)
        logits: Tensor = self.head(pooled)
        return logits


def parameter_groups(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Parameters that an optimiser should decay, and those that it should not: matrices are
    decayed; biases, norms and mixtures are not.

    >>> model = GaussianMixtureAttention(32, 4)
    >>> decayed, kept = parameter_groups(model)
    >>> optimizer = torch.optim.AdamW(
    ...     [{"params": decayed}, {"params": kept, "weight_decay": 0.0}], lr=1e-3
    ... )
    """
    exempt = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, GaussianMixtureAttention)
        for parameter in module.no_decay_parameters()
    }
    decayed: list[nn.Parameter] = []
    not_decayed: list[nn.Parameter] = []
    for parameter in model.parameters():
        decays = parameter.dim() >= 2 and id(parameter) not in exempt
        (decayed if decays else not_decayed).append(parameter)
    return decayed, not_decayed
