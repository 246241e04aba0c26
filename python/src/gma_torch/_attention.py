# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The operators with Python's manners: keywords, optional state, errors that name the argument."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor

from gma_torch._checks import (
    check_flags,
    check_indices,
    check_numbers,
    check_optional_tensors,
    check_seed,
    check_tensors,
    unpack_state,
)
from gma_torch._transforms import attention as attention_in_transforms
from gma_torch._transforms import transforms_are_active


class State(NamedTuple):
    """All that a sequence leaves behind, and all that decoding needs.

    One row a sequence: B of them, or `len(cu_seqlens) - 1` when packed. In float32 (float64 for
    float64 input), differentiable.
    """

    s: Tensor
    """Sum of responsibilities times values, (B, Hk, K, Dv)."""
    z: Tensor
    """Sum of responsibilities, (B, Hk, K)."""

    def reorder(self, index: Tensor) -> State:
        """The rows `index` (rows) int64: for beam search, or to select sequences. Raises ValueError
        for a row that there is not."""
        check_indices("index", index, self.s.size(0))
        return State(self.s.index_select(0, index), self.z.index_select(0, index))

    def clone(self) -> State:
        """A copy that shares no memory."""
        return State(self.s.clone(), self.z.clone())

    def to(self, device: torch.device | str) -> State:
        """On another device."""
        return State(self.s.to(device), self.z.to(device))


def gaussian_mixture_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    means: Tensor,
    variances: Tensor,
    prior_logits: Tensor,
    *,
    is_causal: bool = False,
    key_padding_mask: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    initial_state: tuple[Tensor, Tensor] | None = None,
    return_state: bool = False,
    eps: float = 1e-6,
    dropout_p: float = 0.0,
    dropout_seed: int | None = None,
) -> tuple[Tensor, State | None]:
    """Gaussian mixture attention: every query reads `Gamma_Q S / (Gamma_Q Z + eps)`, where
    `S = Gamma_K^T V`, `Z = Gamma_K^T 1` and the rows of Gamma are the posterior probabilities
    of the K mixture components. Time and memory are linear in the number of tokens.

    Args:
        query: (B, Tq, Hq, D), in float32, float64, bfloat16 or float16, with any strides.
        key: (B, Tk, Hk, D) in query's dtype. Hq must be a multiple of Hk; each group of Hq / Hk
            query heads shares one key head and its mixture.
        value: (B, Tk, Hk, Dv) in query's dtype.
        means: (Hk, K, D) in float32 (float64 for float64 input), as all that follows.
        variances: positive; (Hk, K, D), or (Hk, 1, D) where the components of a head share theirs
            (tied), or (Hk, K, 1) where each has one for all channels (spherical). The latter two
            are cheaper.
        prior_logits: (Hk, K), logarithms of the prior probabilities up to a constant a head; -inf
            switches a component off.
        is_causal: token i reads keys j <= i only; needs Tq = Tk.
        key_padding_mask: (B, Tk) bool, True = keep. Masked keys have no effect, whatever they hold.
        cu_seqlens_q: (sequences + 1) int32 or int64: the boundaries of sequences packed along T,
            from 0 to Tq, with B = 1. Wins over key_padding_mask.
        cu_seqlens_k: the same for keys and values.
        initial_state: (S, Z) from before the first token; None is zero.
        return_state: whether to return the state after the last token.
        eps: added to the normaliser.
        dropout_p: probability with which each responsibility is dropped.
        dropout_seed: what decides which; drawn from torch's CPU generator if None.

    Returns:
        The output (B, Tq, Hq, Dv) in query's dtype, and the final state, or None if not asked for.
        Both are differentiable once in every floating-point input.

    Raises:
        ValueError, TypeError: naming the argument, what was expected and what came.
        NotImplementedError: in forward-mode differentiation, and in a second derivative.

    >>> x = torch.randn(2, 10, 4, 8)
    >>> means, variances, logits = torch.randn(4, 6, 8), torch.ones(4, 6, 8), torch.zeros(4, 6)
    >>> output, state = gaussian_mixture_attention(
    ...     x, x, x, means, variances, logits, is_causal=True, return_state=True
    ... )
    >>> output.shape, state.s.shape
    (torch.Size([2, 10, 4, 8]), torch.Size([2, 4, 6, 8]))
    """
    check_tensors(
        query=query,
        key=key,
        value=value,
        means=means,
        variances=variances,
        prior_logits=prior_logits,
    )
    check_optional_tensors(
        key_padding_mask=key_padding_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k
    )
    initial_s, initial_z = (
        (None, None) if initial_state is None else unpack_state("initial_state", initial_state)
    )
    check_flags(is_causal=is_causal, return_state=return_state)
    check_numbers(eps=eps, dropout_p=dropout_p)
    if dropout_seed is not None:
        check_seed("dropout_seed", dropout_seed)
    else:
        dropout_seed = _draw_seed() if dropout_p > 0 else 0
    if transforms_are_active():
        output, s, z = attention_in_transforms(
            (query, key, value, means, variances, prior_logits),
            (key_padding_mask, cu_seqlens_q, cu_seqlens_k),
            None if initial_s is None or initial_z is None else (initial_s, initial_z),
            is_causal,
            eps,
            dropout_p,
            dropout_seed,
        )
        return output, State(s, z) if return_state else None
    # Compilers that leave Python behind take no operator that leaves a result out.
    wants_state = return_state or torch.compiler.is_exporting()
    output, s, z = torch.ops.gma.gaussian_mixture_attention(
        query,
        key,
        value,
        means,
        variances,
        prior_logits,
        is_causal=is_causal,
        key_padding_mask=key_padding_mask,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        initial_s=initial_s,
        initial_z=initial_z,
        return_state=wants_state,
        eps=eps,
        dropout_p=dropout_p,
        dropout_seed=dropout_seed,
    )
    return output, State(s, z) if return_state else None


def gaussian_mixture_attention_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    means: Tensor,
    variances: Tensor,
    prior_logits: Tensor,
    state: tuple[Tensor, Tensor],
    *,
    eps: float = 1e-6,
) -> tuple[Tensor, State]:
    """One decoding step: adds the token to the state, then reads with its query. The same as the
    causal pass, token by token, in time and memory that do not grow with what came before.

    Args:
        query: (B, 1, Hq, D), or (B, Hq, D).
        key: (B, 1, Hk, D), or (B, Hk, D).
        value: (B, 1, Hk, Dv), or (B, Hk, Dv).
        means: as for `gaussian_mixture_attention()`, as the next two.
        variances: positive.
        prior_logits: (Hk, K).
        state: (S, Z) before the token; left unchanged.
        eps: added to the normaliser.

    Returns:
        The output, (B, 1, Hq, Dv) or (B, Hq, Dv) like the query, and the new state.

    >>> means, variances, logits = torch.randn(4, 6, 8), torch.ones(4, 6, 8), torch.zeros(4, 6)
    >>> state = State(torch.zeros(2, 4, 6, 8), torch.zeros(2, 4, 6))
    >>> for token in torch.randn(10, 2, 4, 8):
    ...     output, state = gaussian_mixture_attention_step(
    ...         token, token, token, means, variances, logits, state
    ...     )
    >>> float(state.z[0, 0].sum().round())
    10.0
    """
    check_tensors(
        query=query,
        key=key,
        value=value,
        means=means,
        variances=variances,
        prior_logits=prior_logits,
    )
    s, z = unpack_state("state", state)
    check_numbers(eps=eps)
    has_token_axis = query.dim() == 4
    if has_token_axis:
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.dim() != 4 or tensor.size(1) != 1:
                raise ValueError(
                    f"{name}: expected one token, (B, 1, H, D), got {list(tensor.shape)}"
                )
        query, key, value = query.squeeze(1), key.squeeze(1), value.squeeze(1)
    if transforms_are_active():
        token = (query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1))
        output, s, z = attention_in_transforms(
            (*token, means, variances, prior_logits), (None,) * 3, (s, z), True, eps, 0.0, 0
        )
        output = output.squeeze(1)
    else:
        output, s, z = torch.ops.gma.gaussian_mixture_attention_step(
            query, key, value, means, variances, prior_logits, s, z, eps=eps
        )
    return output.unsqueeze(1) if has_token_axis else output, State(s, z)


def responsibilities(
    x: Tensor, means: Tensor, variances: Tensor, prior_logits: Tensor
) -> Tensor:
    """The posterior probability of each mixture component for routing vectors: which component a
    token uses. Differentiable.

    Args:
        x: (B, T, H, D).
        means: (H, K, D).
        variances: (H, K, D), (H, 1, D) or (H, K, 1).
        prior_logits: (H, K).

    Returns:
        (B, T, H, K) in the dtype of the means; each row sums to 1.

    >>> means = torch.tensor([[[0.0], [4.0]]])
    >>> gamma = responsibilities(
    ...     torch.tensor([0.0, 2.0, 4.0]).view(1, 3, 1, 1), means, torch.ones(1, 2, 1), torch.zeros(1, 2)
    ... )
    >>> gamma.round(decimals=2).squeeze().tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    """
    check_tensors(x=x, means=means, variances=variances, prior_logits=prior_logits)
    gamma: Tensor = torch.ops.gma.responsibilities(x, means, variances, prior_logits)
    return gamma


def _draw_seed() -> int:
    # On the CPU whatever the default device: one generator decides, and a meta one draws none.
    drawn = torch.randint(2**63 - 1, (), device="cpu")
    if transforms_are_active() and torch._C._functorch.is_batchedtensor(drawn):
        raise NotImplementedError(
            "dropout_seed: expected an int in vmap with randomness='different', got None: the rows of "
            "one call share a seed, as with randomness='same'"
        )
    # Not int(), for which export would need the value.
    return cast(int, drawn.item())
