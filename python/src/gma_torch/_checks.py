# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Checks of what functions and modules are called with: each error names the argument, what was
expected and what came."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from gma_torch._transforms import transforms_are_active


def check_tensors(**arguments: object) -> None:
    for name, argument in arguments.items():
        if not isinstance(argument, Tensor):
            raise TypeError(f"{name}: expected a Tensor, got {type(argument).__name__}")
        if argument.is_nested or argument.layout != torch.strided:
            layout = "a nested one" if argument.is_nested else argument.layout
            raise ValueError(f"{name}: expected a strided tensor, got {layout}")


def check_optional_tensors(**arguments: object) -> None:
    check_tensors(**{name: value for name, value in arguments.items() if value is not None})


def check_flags(**arguments: object) -> None:
    for name, argument in arguments.items():
        if not isinstance(argument, bool):
            raise TypeError(f"{name}: expected a bool, got {type(argument).__name__}")


def check_numbers(**arguments: object) -> None:
    for name, argument in arguments.items():
        # float and int first: asking an abstract class takes a microsecond.
        is_number = isinstance(argument, (float, int, Real, torch.SymFloat))
        if isinstance(argument, bool) or not is_number:
            raise TypeError(f"{name}: expected a number, got {type(argument).__name__}")


def check_seed(name: str, seed: object) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, Integral, torch.SymInt)):
        raise TypeError(f"{name}: expected an int or None, got {type(seed).__name__}")
    value: Any = seed
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name}: expected an int of 64 bits, got {seed}")


def unpack_state(name: str, state: object) -> tuple[Tensor, Tensor]:
    if not isinstance(state, tuple) or len(state) != 2:
        raise TypeError(f"{name}: expected a pair of tensors (S, Z), got {type(state).__name__}")
    s, z = state
    check_tensors(**{f"{name}.s": s, f"{name}.z": z})
    return s, z


def check_tokens(name: str, x: Tensor, hidden_size: int, weight: Tensor) -> None:
    """(B, T, hidden_size) of the dtype and on the device of `weight`, or of a dtype that autocast
    makes of it."""
    check_tensors(**{name: x})
    if x.dim() != 3 or x.size(2) != hidden_size:
        raise ValueError(
            f"{name}: expected shape (batch, tokens, {hidden_size}), got {list(x.shape)}"
        )
    if x.device != weight.device:
        raise ValueError(f"{name}: expected device {weight.device} as the weights, got {x.device}")

    def autocast_takes(tensor: Tensor) -> bool:
        return tensor.is_floating_point() and tensor.dtype != torch.float64

    casts = (
        torch.amp.is_autocast_available(x.device.type)
        and torch.is_autocast_enabled(x.device.type)
        and autocast_takes(x)
        and autocast_takes(weight)
    )
    if x.dtype != weight.dtype and not casts:
        raise TypeError(f"{name}: expected {weight.dtype} as the weights, got {x.dtype}")


def check_mask(
    name: str, mask: Tensor | None, batch: int, tokens: int, device: torch.device
) -> None:
    """(batch, tokens) bool, on `device`; None is legal."""
    if mask is None:
        return
    check_tensors(**{name: mask})
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: expected torch.bool, True = keep, got {mask.dtype}")
    if mask.dim() != 2 or mask.size(0) != batch or mask.size(1) != tokens:
        raise ValueError(f"{name}: expected shape [{batch}, {tokens}], got {list(mask.shape)}")
    if mask.device != device:
        raise ValueError(f"{name}: expected device {device}, got {mask.device}")


def has_values(tensor: Tensor) -> bool:
    """Whether the values of a tensor can be looked at: there are none while compiling, on the meta
    device and in a fake tensor, and many at once inside transforms of torch.func."""
    return not (
        torch.compiler.is_compiling()
        or transforms_are_active()
        or tensor.device.type == "meta"
        or isinstance(tensor, FakeTensor)
    )


def check_indices(name: str, indices: Tensor, end: int) -> None:
    """int64, with values in [0, end). Values are looked at on the CPU only, as a look would wait
    for another device."""
    check_tensors(**{name: indices})
    if indices.dtype != torch.int64:
        raise TypeError(f"{name}: expected torch.int64, got {indices.dtype}")
    if indices.device.type != "cpu" or indices.numel() == 0 or not has_values(indices):
        return
    least, most = (int(value) for value in torch.aminmax(indices))
    if least < 0 or most >= end:
        raise ValueError(
            f"{name}: expected values in [0, {end}), got {least if least < 0 else most}"
        )


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """x (B, T, C) with zeros for padded tokens, by selection: what they hold must not reach the
    convolution or a gradient."""
    return x if mask is None else x.masked_fill(mask.logical_not().unsqueeze(-1), 0.0)
