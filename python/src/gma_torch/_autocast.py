# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What autocast makes of the operator's arguments, for where its kernel is not reached or not run."""

from __future__ import annotations

import torch
from torch import Tensor


def autocasts(device_type: str) -> bool:
    """Whether the operator's autocast kernel takes calls on such a device."""
    return device_type in ("cpu", "cuda") and torch.is_autocast_enabled(device_type)


def autocast_arguments(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """query to prior_logits as the operator gets them: unchanged outside of autocast, else query,
    key and value in its dtype and the mixture in that of the sums. float64 stays as it is."""
    query, key, value, *mixture = tensors
    device_type = query.device.type
    if not autocasts(device_type):
        return tensors
    dtype = torch.get_autocast_dtype(device_type)

    def cast(tensor: Tensor, wanted: torch.dtype) -> Tensor:
        is_wide = tensor.dtype == torch.float64
        return tensor.to(wanted) if tensor.is_floating_point() and not is_wide else tensor

    query, key, value = (cast(tensor, dtype) for tensor in (query, key, value))
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    return query, key, value, *(cast(tensor, sums) for tensor in mixture)
