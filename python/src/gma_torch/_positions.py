# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Positions of tokens, and rotary embedding: the pair (x_2i, x_2i+1) of a head, as a complex number,
is multiplied by exp(j position base^(-2i/D))."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from gma_torch._state import MixerState

PADDING = "padding"
"""Name, in a state, of the number of padded tokens in front of each row (B), where there are any."""


def padded_positions(
    length: int, padding_mask: Tensor | None, state: MixerState | None
) -> Tensor | None:
    """Positions (B, T) of the next T tokens where padding makes them differ between rows, kept
    tokens numbered from 0; None where every row's are state.position (or 0) and up."""
    if padding_mask is not None:
        return (padding_mask.cumsum(1) - 1).clamp_min(0)
    if state is None or PADDING not in state.tensors:
        return None
    padding = state[PADDING]
    columns = torch.arange(state.position, state.position + length, device=padding.device)
    return (columns - padding.unsqueeze(1)).clamp_min(0)


class Rotary:
    """Phases of positions: up to a length from tables that all layers of the process share, and
    computed for each call beyond, as tables live as long as the process does."""

    _tables: dict[tuple[int, float, torch.device, torch.dtype], Tensor] = {}
    _lock = threading.Lock()
    _SMALLEST = 1024
    _LARGEST = 1 << 17

    def __init__(self, head_size: int, base: float) -> None:
        self.head_size = head_size
        self.base = base

    def rotate(self, x: Tensor, positions: Tensor | None, first: int) -> Tensor:
        """x (B, T, H, D) rotated, in its own dtype, to the positions (B, T), or from `first` on."""
        if torch.compiler.is_compiling():
            return self._rotate_in_graph(x, positions, first)
        length = x.size(1)
        if first + length > self._LARGEST or x.is_meta or isinstance(x, FakeTensor):
            place = x.device if x.is_meta else torch.device("cpu")
            if positions is None:
                positions = torch.arange(first, first + length, device=place)
            phases = self._phases(positions.to(place), _real_dtype(x)).to(x.device)
        else:
            table = self._table(first + length, x)
            if positions is None:
                phases = table.narrow(0, first, length)
            else:
                rows = table.index_select(0, positions.flatten())
                phases = rows.view(*positions.shape, *table.shape[1:])
        pairs = x.to(_real_dtype(x)).contiguous().view(*x.shape[:-1], self.head_size // 2, 2)
        rotated = torch.view_as_real(torch.view_as_complex(pairs) * phases)
        return rotated.flatten(-2).to(x.dtype)

    def _rotate_in_graph(self, x: Tensor, positions: Tensor | None, first: int) -> Tensor:
        """The same in real arithmetic and without a table, which compilers fuse; the last bit may
        differ."""
        if positions is None:
            positions = torch.arange(first, first + x.size(1), device=x.device)
        angles = positions.to(torch.float64).unsqueeze(-1) * self._frequencies(x.device)
        angles = angles.unsqueeze(-2)
        real = _real_dtype(x)
        cos, sin = angles.cos().to(real), angles.sin().to(real)
        even, odd = x.to(real).reshape(*x.shape[:-1], self.head_size // 2, 2).unbind(-1)
        rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1)
        return rotated.flatten(-2).to(x.dtype)

    def _frequencies(self, device: torch.device) -> Tensor:
        channels = torch.arange(0, self.head_size, 2, dtype=torch.float64, device=device)
        return torch.pow(self.base, -(channels / self.head_size))

    def _table(self, length: int, x: Tensor) -> Tensor:
        """At least `length` rows (1, D/2), in complex numbers of x's precision."""
        key = (self.head_size, self.base, x.device, _real_dtype(x))
        with self._lock:
            table = self._tables.get(key)
            if table is None or table.size(0) < length:
                rows = 1 << (max(length, self._SMALLEST) - 1).bit_length()
                table = _outside_all_modes(
                    lambda: self._phases(torch.arange(rows), _real_dtype(x)).to(x.device)
                )
                self._tables[key] = table
            return table

    def _phases(self, positions: Tensor, real: torch.dtype) -> Tensor:
        """(..., 1, D/2) of positions (...), in complex numbers of this precision."""
        frequencies = self._frequencies(positions.device)
        angles = positions.to(torch.float64).unsqueeze(-1) * frequencies
        return torch.polar(torch.ones_like(angles), angles).unsqueeze(-2).to(real.to_complex())


def _real_dtype(x: Tensor) -> torch.dtype:
    # Complex arithmetic exists for float and double only; narrower types rotate in float.
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _outside_all_modes(make: Callable[[], Tensor]) -> Tensor:
    """make(), in a thread of its own: inference mode, autocast, transforms of torch.func and default
    devices belong to the calling thread, and what is kept for all calls must know of none."""
    made: list[Tensor] = []
    thread = threading.Thread(target=lambda: made.append(make()))
    thread.start()
    thread.join()
    return made[0]
