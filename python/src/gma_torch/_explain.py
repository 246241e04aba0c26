# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Which implementation a call will run, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from gma_torch._attention import gaussian_mixture_attention
from gma_torch._autocast import autocast_arguments
from gma_torch._checks import check_tensors

_OPERATOR = "gma::gaussian_mixture_attention"


class Explanation(NamedTuple):
    """What `explain()` found."""

    path: str
    """`"kernel"`: fused, no responsibilities stored; `"composite"`: plain ATen in chunks;
    `"meta"`: shapes only."""
    reason: str
    """Why this path and, where it is not the kernel, why not."""
    notes: tuple[str, ...]
    """What else the call costs, or could do without."""

    def __str__(self) -> str:
        return "\n  - ".join((f"{self.path}: {self.reason}", *self.notes))


def explain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    means: Tensor,
    variances: Tensor,
    prior_logits: Tensor,
    **options: Any,
) -> Explanation:
    """Tells which path `gaussian_mixture_attention()` will take for the same arguments, and why
    not the fast one. Nothing is computed.

    Raises:
        ValueError, TypeError: where the call itself would, as far as shapes, dtypes and devices
            tell.

    >>> x = torch.randn(1, 5000, 4, 32)
    >>> means, variances, logits = torch.randn(4, 64, 32), torch.ones(4, 64, 1), torch.zeros(4, 64)
    >>> explanation = explain(x, x, x, means, variances, logits, is_causal=True)
    >>> print(explanation)
    kernel: the tensors are on the CPU, which has kernels for Float
      - spherical variances: the square is expanded, which halves the work on responsibilities
    >>> explain(*(t.to("meta") for t in (x, x, x, means, variances, logits))).path
    'meta'
    """
    tensors = {
        "query": query,
        "key": key,
        "value": value,
        "means": means,
        "variances": variances,
        "prior_logits": prior_logits,
    }
    _check(tensors, options)
    device = query.device.type
    dtype = autocast_arguments(tuple(tensors.values()))[0].dtype
    casts = dtype != query.dtype
    name = {torch.float32: "Float", torch.float64: "Double", torch.bfloat16: "BFloat16"}.get(
        dtype, "Half"
    )
    if device == "meta":
        path, reason = "meta", "the tensors are on the meta device, which holds no values"
    elif torch._C._dispatch_has_kernel_for_dispatch_key(_OPERATOR, device.upper()):
        place = "CPU" if device == "cpu" else device
        path, reason = "kernel", f"the tensors are on the {place}, which has kernels for {name}"
    else:
        path = "composite"
        reason = (
            f"the tensors are on {device}, which has no kernels: ATen computes in chunks of tokens"
        )
    return Explanation(path, reason, tuple(_notes(path, tensors, options, casts, name)))


def _check(tensors: dict[str, Tensor], options: dict[str, Any]) -> None:
    """Raises what the call would, from a call on the meta device."""

    def to_meta(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return tuple(to_meta(each) for each in argument)
        return argument.to("meta") if isinstance(argument, Tensor) else argument

    device = tensors["query"].device if isinstance(tensors["query"], Tensor) else None
    for name, argument in (tensors | options).items():
        for tensor in argument if isinstance(argument, tuple) else (argument,):
            if isinstance(tensor, Tensor) and tensor.device != device:
                raise ValueError(
                    f"{name}: expected device {device} as of query, got {tensor.device}"
                )
    check_tensors(**tensors)
    # The meta device knows no autocast.
    cast = dict(zip(tensors, autocast_arguments(tuple(tensors.values())), strict=True))
    with torch.no_grad():
        gaussian_mixture_attention(
            **{name: to_meta(tensor) for name, tensor in cast.items()},
            **{name: to_meta(option) for name, option in options.items()},
        )


def _notes(
    path: str, tensors: dict[str, Tensor], options: dict[str, Any], casts: bool, name: str
) -> list[str]:
    notes = []
    query, means, variances = tensors["query"], tensors["means"], tensors["variances"]
    if casts:
        notes.append(f"autocast: query, key and value are cast to {name}, the mixture is not")
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
        kept = "the states before segments of tokens" if options.get("is_causal") else "one state"
        notes.append(f"gradients are wanted: the normalisers and {kept} are kept for backward")
    if path == "kernel" and means.size(1) > 1 and variances.size(1) == 1:
        notes.append("tied variances: the square is expanded, which halves the work on responsibilities")
    elif path == "kernel" and means.size(2) > 1 and variances.size(2) == 1:
        notes.append(
            "spherical variances: the square is expanded, which halves the work on responsibilities"
        )
    if query.size(1) == 1 and options.get("initial_state") is not None:
        notes.append("one token after a state: gaussian_mixture_attention_step costs less")
    return notes
