# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What gma is measured against: other attentions, and other ways to write this one.

Every function takes and returns (B, T, H, D) tensors, like the operator.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass

import gma_torch
import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Mixture:
    """means and variances (H, K, D), prior_logits (H, K)."""

    means: Tensor
    variances: Tensor
    prior_logits: Tensor

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.means, self.variances, self.prior_logits


def gma(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """This project's operator."""
    output, _ = gma_torch.gaussian_mixture_attention(
        q, k, v, *mixture.tensors(), is_causal=causal
    )
    return output


def sdpa(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """torch's scaled_dot_product_attention."""
    del mixture
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def _read(gamma_q: Tensor, gamma_k: Tensor, v: Tensor, causal: bool, chunk: int = 128) -> Tensor:
    """Reads through the state; (B, H, T, K) and (B, H, T, Dv). Causal in chunks: prefix sums between
    them, a masked product inside."""
    v = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    if not causal:
        output = gamma_q @ (gamma_k.transpose(-1, -2) @ v)
    else:
        tokens = v.shape[2]
        padding = -tokens % chunk
        gamma_q, gamma_k, v = (
            F.pad(x, (0, 0, 0, padding)).unflatten(2, (-1, chunk)) for x in (gamma_q, gamma_k, v)
        )
        sums = gamma_k.transpose(-1, -2) @ v
        before = sums.cumsum(2) - sums
        inside = (gamma_q @ gamma_k.transpose(-1, -2)).tril()
        output = (gamma_q @ before + inside @ v).flatten(2, 3)[:, :, :tokens]
    return output[..., :-1] / (output[..., -1:] + 1e-6)


def careful(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """The same mathematics, written with care in PyTorch: log-densities as two matrix products, with x
    and with x squared, and the causal form in chunks."""
    means, variances, prior_logits = mixture.tensors()
    precision = 1 / variances
    linear = (means * precision).transpose(-1, -2)
    quadratic = (-0.5 * precision).transpose(-1, -2)
    constant = prior_logits - 0.5 * (variances.log() + means.square() * precision).sum(-1)

    def responsibilities(x: Tensor) -> Tensor:
        x = x.transpose(1, 2)
        return (x @ linear + x.square() @ quadratic + constant[:, None]).softmax(-1)

    gamma_q, gamma_k = responsibilities(q), responsibilities(k)
    return _read(gamma_q, gamma_k, v.transpose(1, 2), causal).transpose(1, 2)


def plain(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """The same mathematics as it stands on paper: tensors of (N, K, D), prefix sums of (N, K, Dv)."""
    means, variances, prior_logits = mixture.tensors()

    def responsibilities(x: Tensor) -> Tensor:
        distance = (x.transpose(1, 2)[..., None, :] - means[:, None]).square()
        log_density = variances.log()[:, None] + distance / variances[:, None]
        return (prior_logits[:, None] - 0.5 * log_density.sum(-1)).softmax(-1)

    gamma_q, gamma_k = responsibilities(q), responsibilities(k)
    written = gamma_k[..., None] * v.transpose(1, 2)[..., None, :]
    s, z = (x.cumsum(2) if causal else x.sum(2, keepdim=True) for x in (written, gamma_k))
    numerator = (gamma_q[..., None] * s).sum(-2)
    return (numerator / ((gamma_q * z).sum(-1, keepdim=True) + 1e-6)).transpose(1, 2)


def linear(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
    """Linear attention with elu(x) + 1 features (Katharopoulos et al., arXiv 2006.16236)."""
    del mixture
    phi_q, phi_k = (F.elu(x.transpose(1, 2)) + 1 for x in (q, k))
    return _read(phi_q, phi_k, v.transpose(1, 2), causal).transpose(1, 2)


def performer() -> Callable[[Tensor, Tensor, Tensor, Mixture, bool], Tensor] | None:
    """FAVOR+ as the performer-pytorch package has it, where that is installed. Its causal form without
    CUDA is a plain scan and left out."""
    if importlib.util.find_spec("performer_pytorch") is None:
        return None
    package = importlib.import_module("performer_pytorch")

    def attend(q: Tensor, k: Tensor, v: Tensor, mixture: Mixture, causal: bool) -> Tensor:
        del mixture, causal
        fast_attention = package.FastAttention(dim_heads=q.shape[-1])
        return fast_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)

    return attend


def useful_flops(tokens: int, heads: int, components: int, size: int, backward: bool) -> float:
    """Forward 8NKD + 4NKDv a head, backward 24NKD + 8NKDv, with D = Dv = size."""
    return (44.0 if backward else 12.0) * tokens * heads * components * size


def make_mixture(heads: int, components: int, size: int) -> Mixture:
    """Means from N(0, 1), variances about 4 sqrt(D) as modules start them."""
    return Mixture(
        torch.randn(heads, components, size),
        4 * math.sqrt(size) * torch.empty(heads, components, size).uniform_(0.8, 1.2),
        torch.zeros(heads, components),
    )
