# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What the tests share: inputs, both implementations, and one comparison."""

from __future__ import annotations

import torch
from torch import Tensor

import gma_torch

NAMES = ("query", "key", "value", "means", "variances", "prior_logits")


def make_inputs(
    batch: int = 2,
    queries: int = 7,
    keys: int | None = None,
    heads: int = 2,
    key_heads: int | None = None,
    components: int = 4,
    dim: int = 3,
    value_dim: int = 5,
    dtype: torch.dtype = torch.float64,
    covariance_type: str = "diag",
    seed: int = 0,
    requires_grad: bool = False,
) -> dict[str, Tensor]:
    """Random arguments by name; the mixture in the type of the sums."""
    generator = torch.Generator().manual_seed(seed)
    keys = queries if keys is None else keys
    key_heads = key_heads or heads

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    accumulate = torch.float64 if dtype == torch.float64 else torch.float32
    rows = 1 if covariance_type == "tied" else components
    columns = 1 if covariance_type == "spherical" else dim
    inputs = {
        "query": normal(batch, queries, heads, dim).to(dtype),
        "key": normal(batch, keys, key_heads, dim).to(dtype),
        "value": normal(batch, keys, key_heads, value_dim).to(dtype),
        "means": normal(key_heads, components, dim).to(accumulate),
        "variances": (0.5 + torch.rand(key_heads, rows, columns, generator=generator)).to(accumulate),
        "prior_logits": normal(key_heads, components).to(accumulate),
    }
    return {name: tensor.requires_grad_(requires_grad) for name, tensor in inputs.items()}


def make_state(inputs: dict[str, Tensor], rows: int | None = None, seed: int = 1) -> gma_torch.State:
    """A state that a sequence of keys could have left."""
    generator = torch.Generator().manual_seed(seed)
    heads, components, _ = inputs["means"].shape
    rows = inputs["query"].shape[0] if rows is None else rows
    options = {"dtype": inputs["means"].dtype}
    s = torch.randn(
        (rows, heads, components, inputs["value"].shape[3]), generator=generator
    ).to(**options)
    z = (1 + torch.rand((rows, heads, components), generator=generator)).to(**options)
    return gma_torch.State(s, z)


def composite_attention(*args: Tensor, initial_state=None, return_state=False, **options):
    """gma_torch.gaussian_mixture_attention by the plain ATen path."""
    s0, z0 = (None, None) if initial_state is None else initial_state
    output, s, z = torch.ops.gma._attention_composite(
        *args, initial_s=s0, initial_z=z0, return_state=return_state, **options
    )
    return output, gma_torch.State(s, z) if return_state else None


def assert_close(actual: Tensor, expected: Tensor, tolerance: float, what: str = "") -> None:
    """max |actual - expected| <= tolerance * max |expected|; NaN fails.

    The scale is the tensor's own, so that small gradients are compared as closely as large ones;
    what is expected to be zero throughout must be zero exactly.
    """
    assert actual.shape == expected.shape, f"{what}: {actual.shape} is not {expected.shape}"
    if actual.numel() == 0:
        return
    actual, expected = actual.detach().double(), expected.detach().double()
    error = (actual - expected).abs().max().item()
    allowed = tolerance * expected.abs().max().item()
    assert error <= allowed, f"{what}: error {error:.3e}, allowed {allowed:.3e}"


def gradients(outputs: list[Tensor], inputs: list[Tensor], seed: int = 2) -> tuple[Tensor, ...]:
    """Gradients for fixed random upstream gradients of all outputs."""
    generator = torch.Generator().manual_seed(seed)
    upstream = [
        torch.randn(output.shape, dtype=torch.float64, generator=generator).to(output.dtype)
        for output in outputs
    ]
    return torch.autograd.grad(outputs, inputs, upstream)
