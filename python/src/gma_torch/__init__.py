# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Gaussian mixture attention for PyTorch: linear in the sequence length, interpretable."""

from gma_torch._library import load_library

load_library()

from gma_torch._attention import (  # noqa: E402  (needs the operators)
    State,
    gaussian_mixture_attention,
    gaussian_mixture_attention_step,
    responsibilities,
)
from gma_torch._readouts import affinity, component_usage, normalized_affinity  # noqa: E402

__all__ = [
    "State",
    "affinity",
    "component_usage",
    "gaussian_mixture_attention",
    "gaussian_mixture_attention_step",
    "normalized_affinity",
    "responsibilities",
]
