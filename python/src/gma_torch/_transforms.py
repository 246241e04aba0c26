# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The operator inside the transforms of torch.func, which do not take autograd functions of C++:
forward and backward are the same operators, tied together by a Python one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gma_torch._autocast import autocast_arguments


def transforms_are_active() -> bool:
    """Whether a transform of torch.func is running, outside of compilation."""
    if torch.compiler.is_compiling():
        return False
    active: bool = torch._C._are_functorch_transforms_active()
    return active


def attention(
    tensors: tuple[Tensor, ...],
    optional: tuple[Tensor | None, ...],
    state: tuple[Tensor, Tensor] | None,
    is_causal: bool,
    eps: float,
    dropout_p: float,
    dropout_seed: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output and final state; `tensors` are query to prior_logits, `optional` the mask and the
    boundaries."""
    tensors = autocast_arguments(tensors)
    query, _, value, means, *_ = tensors
    boundaries = optional[1]
    fits = query.dim() == value.dim() == 4 and means.dim() == 3
    if state is None and fits and (boundaries is None or boundaries.dim() == 1):
        rows = query.size(0) if boundaries is None else boundaries.size(0) - 1
        heads, components, _ = means.shape
        state = (
            means.new_zeros(rows, heads, components, value.size(3)),
            means.new_zeros(rows, heads, components),
        )
    for name, tensor in zip(_TENSORS, (*tensors, *(state or ())), strict=False):
        if forward_ad.unpack_dual(tensor).tangent is not None:  # type: ignore[no-untyped-call]
            _refuse_forward_mode(name)
    options = (is_causal, eps, dropout_p, dropout_seed)
    # With tensors of other ranks the operator says which of them is wrong.
    s0, z0 = (None, None) if state is None else state
    output, s, z, *_ = _Attention.apply(options, *optional, *tensors, s0, z0)  # type: ignore[no-untyped-call]
    return output, s, z


_Options = tuple[bool, float, float, int]
_TENSORS = ("query", "key", "value", "means", "variances", "prior_logits", "initial_s", "initial_z")


def _refuse_forward_mode(name: str) -> None:
    raise NotImplementedError(
        "gaussian_mixture_attention: expected to be differentiated in reverse mode, got a "
        f"forward-mode tangent of {name}: the operator has no forward-mode derivative"
    )


class _Attention(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        options: _Options,
        mask: Tensor | None,
        cu_seqlens_q: Tensor | None,
        cu_seqlens_k: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        is_causal, eps, dropout_p, seed = options
        mixture, state = tensors[:6], tensors[6:]
        outputs: tuple[Tensor, ...] = torch.ops.gma._attention_forward(
            *mixture, is_causal, mask, cu_seqlens_q, cu_seqlens_k, *state, True, eps, dropout_p, seed
        )
        return tuple(outputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.options = inputs[0]
        ctx.save_for_backward(*inputs[1:], *output[3:])
        ctx.mark_non_differentiable(*output[3:])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _Backward.apply(ctx.options, *ctx.saved_tensors, *upstream[:3])  # type: ignore[no-untyped-call]
        return (None,) * 4 + tuple(gradients)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> None:
        _refuse_forward_mode("an argument")


class _Backward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(
        options: _Options,
        mask: Tensor | None,
        cu_seqlens_q: Tensor | None,
        cu_seqlens_k: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        is_causal, eps, dropout_p, seed = options
        mixture, state, rest = tensors[:6], tensors[6:8], tensors[8:]
        gradients: tuple[Tensor, ...] = torch.ops.gma._attention_backward(
            *mixture,
            is_causal,
            mask,
            cu_seqlens_q,
            cu_seqlens_k,
            *state,
            eps,
            dropout_p,
            seed,
            *rest,
            [True] * 7,
        )
        return tuple(gradients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> None:
        raise NotImplementedError(
            "gaussian_mixture_attention: expected to be differentiated once, got a request for its "
            "second derivative"
        )
