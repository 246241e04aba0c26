# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What layers and models carry from token to token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from gma_torch._checks import check_indices


@dataclass
class MixerState:
    """What one layer carries from token to token: named tensors, each with the batch as axis 0.

    Of constant size, however long the sequence. A module replaces the tensors of the state that it
    is called with and never writes into them, so copies may share them.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    position: int = 0
    """Tokens seen, padding included."""

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self.tensors[name]
        except KeyError:
            raise ValueError(
                f"state: expected one from initial_state() of the same mixer, got one without {name!r}"
            ) from None

    def reorder(self, index: Tensor) -> MixerState:
        """The rows `index` (rows) int64 of every tensor, on their device: for beam search, or to
        select sequences. Raises ValueError for a row that there is not."""
        for tensor in self.tensors.values():
            check_indices("index", index, tensor.size(0))
            if index.dim() != 1 or index.device != tensor.device:
                raise ValueError(
                    f"index: expected shape (rows) on {tensor.device}, got {list(index.shape)} on "
                    f"{index.device}"
                )
        return self._map(lambda tensor: tensor.index_select(0, index))

    def clone(self) -> MixerState:
        return self._map(torch.clone)

    def detach(self) -> MixerState:
        """Without its history: for truncated backpropagation through time."""
        return self._map(Tensor.detach)

    def to(self, device: torch.device | str) -> MixerState:
        """On another device. The dtypes are those of the sums and stay."""
        return self._map(lambda tensor: tensor.to(device))

    def replace_with(self, other: MixerState) -> None:
        self.tensors, self.position = other.tensors, other.position

    def _map(self, function: Callable[[Tensor], Tensor]) -> MixerState:
        tensors = {name: function(tensor) for name, tensor in self.tensors.items()}
        return MixerState(tensors, self.position)


@dataclass
class ModelState:
    """State of a whole model: one `MixerState` a layer."""

    layers: list[MixerState]

    @property
    def position(self) -> int:
        """Tokens seen, padding included."""
        return self.layers[0].position

    def reorder(self, index: Tensor) -> Self:
        """The rows `index` (rows) int64 of every tensor: see `MixerState.reorder()`."""
        return type(self)([layer.reorder(index) for layer in self.layers])

    def clone(self) -> Self:
        return type(self)([layer.clone() for layer in self.layers])

    def detach(self) -> Self:
        """Without its history: for truncated backpropagation through time."""
        return type(self)([layer.detach() for layer in self.layers])

    def to(self, device: torch.device | str) -> Self:
        """On another device. The dtypes are those of the sums and stay."""
        return type(self)([layer.to(device) for layer in self.layers])
