# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Holds every contestant to its definition, gradients included, before any time is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import gma_torch
import torch
import torch.nn.functional as F
from torch import Tensor

from peers import attention
from peers.attention import Mixture

Attention = Callable[[Tensor, Tensor, Tensor, Mixture, bool], Tensor]


def _read(affinity: Tensor, v: Tensor, causal: bool, eps: float) -> Tensor:
    """With all N x N weights, (B, H, T, T)."""
    affinity = affinity.tril() if causal else affinity
    weights = affinity / (affinity.sum(-1, keepdim=True) + eps)
    return (weights @ v.transpose(1, 2)).transpose(1, 2)


def mixture_affinity(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """Gaussian mixture attention by its definition."""
    def responsibilities(x: Tensor) -> Tensor:
        means, variances, prior_logits = mixture.tensors()
        squares = (x.transpose(1, 2)[..., None, :] - means[:, None]).square() / variances[:, None]
        terms = squares + variances[:, None].log()
        return (prior_logits[:, None] - 0.5 * terms.sum(-1)).softmax(-1)

    return _read(responsibilities(q) @ responsibilities(k).transpose(-1, -2), v, causal, 1e-6)


def softmax_affinity(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """Softmax attention by its definition."""
    del mixture
    q, k = (x.transpose(1, 2) for x in (q, k))
    logits = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return _read((logits - logits.amax(-1, keepdim=True)).exp(), v, causal, 0)


def linear_affinity(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """Linear attention by its definition."""
    del mixture
    phi_q, phi_k = (F.elu(x.transpose(1, 2)) + 1 for x in (q, k))
    return _read(phi_q @ phi_k.transpose(-1, -2), v, causal, 1e-6)


def results(f: Attention, inputs: list[Tensor], mixture: Mixture, causal: bool,
            upstream: Tensor) -> dict[str, Tensor]:
    """Output and gradients."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    mixture = Mixture(*(x.detach().requires_grad_() for x in mixture.tensors()))
    output = f(*inputs, mixture, causal)
    output.backward(upstream)
    found = {"output": output.detach()}
    names = ("query", "key", "value", "means", "variances", "prior_logits")
    for name, tensor in zip(names, (*inputs, *mixture.tensors())):
        if tensor.grad is not None:
            found[f"gradient of {name}"] = tensor.grad
    return found


def expect_close(name: str, actual: dict[str, Tensor], expected: dict[str, Tensor],
                 tolerance: float) -> None:
    """Raises AssertionError unless everything agrees, relative to its largest element."""
    if actual.keys() != expected.keys():
        raise AssertionError(f"{name}: gives {sorted(actual)}, expected {sorted(expected)}")
    for what, right in expected.items():
        error = (actual[what].double() - right.double()).abs().max()
        if not error <= tolerance * right.abs().max():
            raise AssertionError(f"{name}: its {what} is wrong by {error:.1e}, "
                                 f"more than {tolerance:.0e} of {right.abs().max():.1e}")


def verify_kind(name: str, f: Attention, definition: Attention, mixture: Mixture,
                dtype: torch.dtype, tolerance: float, kinds: tuple[bool, ...] = (False, True),
                tokens: int = 300) -> None:
    """At a length with a remainder in every tile and chunk."""
    heads, _, size = mixture.means.shape
    inputs = [torch.randn(1, tokens, heads, size).to(dtype) for _ in range(3)]
    upstream = torch.randn(1, tokens, heads, size).to(dtype)
    exact = Mixture(*(x.double() for x in mixture.tensors()))
    for causal in kinds:
        expected = results(definition, [x.double() for x in inputs], exact, causal,
                           upstream.double())
        expect_close(f"{name}{', causal' if causal else ''}",
                     results(f, inputs, mixture, causal, upstream), expected, tolerance)


def verify_step() -> None:
    """Token by token as in one pass."""
    mixture = attention.make_mixture(2, 16, 64)
    q, k, v = (torch.randn(2, 40, 2, 64) for _ in range(3))
    expected = attention.gma(q, k, v, mixture, True)
    state = gma_torch.State(torch.zeros(2, 2, 16, 64), torch.zeros(2, 2, 16))
    for t in range(40):
        token = slice(t, t + 1)
        output, state = gma_torch.gaussian_mixture_attention_step(
            q[:, token], k[:, token], v[:, token], *mixture.tensors(), state)
        expect_close(f"step {t}", {"output": output}, {"output": expected[:, token]}, 1e-4)


def verify_long(tokens: int = 131_072) -> None:
    """One long sequence, on one thread and on all, against the careful version."""
    mixture = attention.make_mixture(1, 128, 64)
    inputs = [torch.randn(1, tokens, 1, 64) for _ in range(3)]
    threads = torch.get_num_threads()
    for causal in (False, True):
        with torch.no_grad():
            expected = {"output": attention.careful(*inputs, mixture, causal)}
            for count in (1, threads):
                torch.set_num_threads(count)
                actual = {"output": attention.gma(*inputs, mixture, causal)}
                torch.set_num_threads(threads)
                expect_close(f"gma, {tokens} tokens, {count} threads", actual, expected, 1e-3)


def verify_all() -> None:
    """Raises AssertionError naming the first contestant that is wrong."""
    torch.manual_seed(0)
    mixture = attention.make_mixture(2, 32, 64)
    tied = replace(mixture, variances=mixture.variances[:, :1].contiguous())
    spherical = replace(mixture, variances=mixture.variances[:, :, :1].contiguous())
    for name, shape in (("diag", mixture), ("tied", tied), ("spherical", spherical)):
        verify_kind(f"gma, {name}", attention.gma, mixture_affinity, shape, torch.float32, 1e-4)
    verify_kind("gma, bfloat16", attention.gma, mixture_affinity, mixture, torch.bfloat16, 2e-2)
    verify_kind("careful", attention.careful, mixture_affinity, mixture, torch.float32, 1e-4)
    verify_kind("plain", attention.plain, mixture_affinity, mixture, torch.float32, 1e-4)
    verify_kind("SDPA", attention.sdpa, softmax_affinity, mixture, torch.float32, 1e-4)
    verify_kind("linear", attention.linear, linear_affinity, mixture, torch.float32, 1e-4)
    performer = attention.performer()
    if performer is not None:
        # Its features are drawn at random: of its definition, that weights sum to 1 is left.
        q, k = (torch.randn(1, 300, 2, 64) for _ in range(2))
        ones = torch.ones(1, 300, 2, 64)
        expect_close("performer", {"output": performer(q, k, ones, mixture, False)},
                     {"output": ones}, 1e-3)
    verify_step()
    verify_long()


if __name__ == "__main__":
    verify_all()
