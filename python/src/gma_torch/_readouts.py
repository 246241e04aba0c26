# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What the operator computes without ever forming it, of the responsibilities of its tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from gma_torch._checks import check_flags, check_numbers, check_optional_tensors, check_tensors


def _check_responsibilities(name: str, responsibilities: Tensor) -> None:
    if responsibilities.dim() != 4 or not responsibilities.is_floating_point():
        raise ValueError(
            f"{name}: expected a floating-point tensor of shape (B, T, H, K), got "
            f"{responsibilities.dtype} of shape {tuple(responsibilities.shape)}"
        )


def affinity(query_responsibilities: Tensor, key_responsibilities: Tensor) -> Tensor:
    """The implicit affinity ``Gamma_Q Gamma_K^T`` between tokens: non-negative, of rank K at most.

    Quadratic in tokens, and so for a window of a sequence. Differentiable.

    Args:
        query_responsibilities: (B, Tq, H, K), as :func:`responsibilities` returns them.
        key_responsibilities: (B, Tk, Hk, K) in the same dtype. H must be a multiple of Hk; each
            group of H / Hk query heads shares one key head.

    Returns:
        (B, H, Tq, Tk).

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
    """
    check_tensors(
        query_responsibilities=query_responsibilities, key_responsibilities=key_responsibilities
    )
    _check_responsibilities("query_responsibilities", query_responsibilities)
    _check_responsibilities("key_responsibilities", key_responsibilities)
    queries, keys = query_responsibilities.shape, key_responsibilities.shape
    if keys[0] != queries[0] or keys[3] != queries[3] or keys[2] == 0 or queries[2] % keys[2] != 0:
        raise ValueError(
            "key_responsibilities: expected the batch and components of query_responsibilities, "
            f"{tuple(queries)}, and a divisor of its heads, got {tuple(keys)}"
        )
    if key_responsibilities.dtype != query_responsibilities.dtype:
        raise TypeError(
            f"key_responsibilities: expected {query_responsibilities.dtype}, as "
            f"query_responsibilities, got {key_responsibilities.dtype}"
        )
    grouped = key_responsibilities.repeat_interleave(queries[2] // keys[2], dim=2)
    return query_responsibilities.transpose(1, 2) @ grouped.permute(0, 2, 3, 1)


def normalized_affinity(affinity: Tensor, *, is_causal: bool = False, eps: float = 1e-6) -> Tensor:
    """The weights that values get: each row of an affinity over its sum and ``eps``.

    With an affinity of all tokens of a sequence, these times the values are the operator's output.

    Args:
        affinity: (..., Tq, Tk), as :func:`affinity` returns it.
        is_causal: rows are of the keys up to the query alone; needs Tq = Tk.
        eps: added to the normaliser.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
    """
    check_tensors(affinity=affinity)
    check_flags(is_causal=is_causal)
    check_numbers(eps=eps)
    if affinity.dim() < 2 or (is_causal and affinity.shape[-1] != affinity.shape[-2]):
        expected = "(..., T, T) with is_causal" if is_causal else "(..., Tq, Tk)"
        raise ValueError(f"affinity: expected shape {expected}, got {tuple(affinity.shape)}")
    visible = affinity.tril() if is_causal else affinity
    return visible / (visible.sum(-1, keepdim=True) + eps)


def component_usage(responsibilities: Tensor, padding_mask: Tensor | None = None) -> Tensor:
    """Mean responsibility of each component over tokens: how much a head uses it.

    Args:
        responsibilities: (B, T, H, K), as :func:`responsibilities` returns them.
        padding_mask: (B, T) bool, True = keep. Masked tokens have no effect, whatever they hold.

    Returns:
        (H, K); rows sum to 1, or are 0 where no token is kept.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
    """
    check_tensors(responsibilities=responsibilities)
    check_optional_tensors(padding_mask=padding_mask)
    _check_responsibilities("responsibilities", responsibilities)
    tokens = tuple(responsibilities.shape[:2])
    if padding_mask is None:
        return responsibilities.sum((0, 1)) / max(tokens[0] * tokens[1], 1)
    if padding_mask.dtype != torch.bool or tuple(padding_mask.shape) != tokens:
        raise ValueError(
            f"padding_mask: expected a bool tensor of shape {tokens}, got {padding_mask.dtype} of "
            f"shape {tuple(padding_mask.shape)}"
        )
    kept = responsibilities.masked_fill(~padding_mask[..., None, None], 0)
    return kept.sum((0, 1)) / padding_mask.sum().clamp_min(1)
