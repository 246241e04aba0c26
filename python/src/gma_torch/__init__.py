# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Gaussian mixture attention for PyTorch: linear in the sequence length, interpretable."""

from gma_torch._library import load_library

load_library()

# What follows needs the operators.
from gma_torch._attention import (  # noqa: E402
    State,
    gaussian_mixture_attention,
    gaussian_mixture_attention_step,
    responsibilities,
)
from gma_torch._checkpoint import Checkpoint, load_checkpoint, save_checkpoint  # noqa: E402
from gma_torch._config import GmaConfig  # noqa: E402
from gma_torch._convert import replace_attention  # noqa: E402
from gma_torch._explain import Explanation, explain  # noqa: E402
from gma_torch._mixer import GaussianMixtureAttention  # noqa: E402
from gma_torch._models import (  # noqa: E402
    GmaBlock,
    GmaForCausalLM,
    GmaForSequenceClassification,
    parameter_groups,
)
from gma_torch._readouts import affinity, component_usage, normalized_affinity  # noqa: E402
from gma_torch._state import MixerState, ModelState  # noqa: E402
from gma_torch._version import __version__  # noqa: E402

__all__ = [
    "Checkpoint",
    "Explanation",
    "GaussianMixtureAttention",
    "GmaBlock",
    "GmaConfig",
    "GmaForCausalLM",
    "GmaForSequenceClassification",
    "MixerState",
    "ModelState",
    "State",
    "__version__",
    "affinity",
    "component_usage",
    "explain",
    "gaussian_mixture_attention",
    "gaussian_mixture_attention_step",
    "load_checkpoint",
    "normalized_affinity",
    "parameter_groups",
    "replace_attention",
    "responsibilities",
    "save_checkpoint",
]
