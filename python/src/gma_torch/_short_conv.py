# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution over neighbouring tokens, then SiLU."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gma_torch._autocast import autocasts


def depthwise_conv(x: Tensor, weight: Tensor, left: int, length: int) -> Tensor:
    """y[b,t,c] = sum_j weight[c,j] x[b, t + j - left, c] for t < length, where x is zero outside
    its ends: x (B, T, C), weight (C, W), y (B, length, C)."""
    width = weight.size(1)
    right = length + width - 1 - left - x.size(1)
    padded = nn.functional.pad(x, (0, 0, left, right))
    taps = weight.to(x.dtype).unbind(1)
    # Product and sum are rounded one by one, as in the loops of the C++ module.
    y = padded.narrow(1, 0, length) * taps[0]
    for j in range(1, width):
        y = y + padded.narrow(1, j, length) * taps[j]
    return y


class ShortConv(nn.Module):
    """Convolution over the last `width` tokens (causal) or over the nearest ones, then SiLU."""

    def __init__(
        self,
        channels: int,
        width: int,
        is_causal: bool,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.left = width - 1 if is_causal else width // 2
        self.weight = nn.Parameter(torch.empty(channels, width, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(1))
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, C) to the same shape."""
        return nn.functional.silu(depthwise_conv(x, self.weight, self.left, x.size(1)))

    def forward_after(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """The same for tokens x that follow those in `tail` (B, width - 1, C), causal only, and the
        tail of what follows x."""
        channels, width = self.weight.shape
        if list(tail.shape) != [x.size(0), width - 1, channels]:
            raise ValueError(
                f"state: expected a tail of shape [{x.size(0)}, {width - 1}, {channels}], "
                f"got {list(tail.shape)}"
            )
        if torch.promote_types(tail.dtype, x.dtype) != x.dtype and not autocasts(x.device.type):
            raise TypeError(f"state: expected a tail in {x.dtype} as the weights, got {tail.dtype}")
        extended = torch.cat((tail, x), 1)
        output = nn.functional.silu(depthwise_conv(extended, self.weight, 0, x.size(1)))
        return output, extended.narrow(1, x.size(1), width - 1).clone()

    def initial_tail(self, batch_size: int) -> Tensor:
        """The tail before the first token: zeros."""
        channels, width = self.weight.shape
        return self.weight.detach().new_zeros(batch_size, width - 1, channels)

    def extra_repr(self) -> str:
        channels, width = self.weight.shape
        return f"{channels}, width={width}, is_causal={self.left == width - 1}"
