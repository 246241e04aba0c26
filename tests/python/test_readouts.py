# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Read-outs of responsibilities, against the operator itself."""

import pytest
import torch
from support import assert_close, make_inputs

import gma_torch


def both_responsibilities(inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Of queries, each head with its group's mixture, and of keys."""
    group = inputs["query"].shape[2] // inputs["key"].shape[2]
    mixture = [inputs[name] for name in ("means", "variances", "prior_logits")]
    shared = [part.repeat_interleave(group, 0) for part in mixture]
    return [gma_torch.responsibilities(inputs["query"], *shared),
            gma_torch.responsibilities(inputs["key"], *mixture)]


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_affinity_is_what_the_operator_reads_with(is_causal: bool) -> None:
    inputs = make_inputs(heads=4, key_heads=2, keys=7 if is_causal else 9)
    product = gma_torch.affinity(*both_responsibilities(inputs))
    weights = gma_torch.normalized_affinity(product, is_causal=is_causal, eps=1e-3)
    values = inputs["value"].repeat_interleave(2, 2).transpose(1, 2)
    expected, _ = gma_torch.gaussian_mixture_attention(**inputs, is_causal=is_causal, eps=1e-3)
    assert_close((weights @ values).transpose(1, 2), expected, 1e-12)


def test_the_affinity_is_of_low_rank_and_differentiable() -> None:
    inputs = make_inputs(queries=20, requires_grad=True)
    queries, keys = both_responsibilities(inputs)
    product = gma_torch.affinity(queries, keys)
    assert product.shape == (2, 2, 20, 20) and (product >= 0).all()
    assert (torch.linalg.matrix_rank(product.detach()) == 4).all()
    gma_torch.normalized_affinity(product).square().sum().backward()
    assert all((inputs[name].grad != 0).any() for name in ("query", "key", "means"))


def test_usage_is_the_mean_over_kept_tokens() -> None:
    _, keys = both_responsibilities(make_inputs())
    usage = gma_torch.component_usage(keys)
    assert_close(usage, keys.flatten(0, 1).mean(0), 1e-12)
    assert_close(usage.sum(1), torch.ones(2, dtype=torch.float64), 1e-12)
    mask = torch.ones(2, 7, dtype=torch.bool)
    mask[1, 3:] = False
    poisoned = keys.masked_fill(~mask[..., None, None], float("nan"))
    kept = torch.cat([keys[0], keys[1, :3]])
    assert_close(gma_torch.component_usage(poisoned, mask), kept.mean(0), 1e-12)
    assert (gma_torch.component_usage(poisoned, torch.zeros_like(mask)) == 0).all()
    assert (gma_torch.component_usage(keys[:, :0]) == 0).all()


def test_wrong_usage() -> None:
    queries, keys = both_responsibilities(make_inputs())
    product = gma_torch.affinity(queries, keys)
    for call, error, message in [
        (lambda: gma_torch.affinity(None, keys), TypeError, "query_responsibilities: expected a Tensor"),
        (lambda: gma_torch.affinity(queries[0], keys), ValueError, "query_responsibilities: .*B, T, H, K"),
        (lambda: gma_torch.affinity(queries, keys.long()), ValueError, "key_responsibilities: .*int64"),
        (lambda: gma_torch.affinity(queries, keys[..., :3]), ValueError, r"divisor .*\(2, 7, 2, 3\)"),
        (lambda: gma_torch.affinity(queries[:, :, :1], keys), ValueError, "a divisor of its heads"),
        (lambda: gma_torch.affinity(queries, keys.float()), TypeError, "expected torch.float64"),
        (lambda: gma_torch.normalized_affinity(product[..., :3], is_causal=True), ValueError,
         "affinity: .*is_causal"),
        (lambda: gma_torch.normalized_affinity(product, is_causal=1), TypeError, "is_causal"),
        (lambda: gma_torch.normalized_affinity(product, eps="a"), TypeError, "eps"),
        (lambda: gma_torch.component_usage(keys, torch.ones(2, 7)), ValueError, "padding_mask: .*float32"),
        (lambda: gma_torch.component_usage(keys, torch.ones(2, 6, dtype=torch.bool)), ValueError,
         r"padding_mask: .*\(2, 7\), got torch.bool of shape \(2, 6\)"),
    ]:
        with pytest.raises(error, match=message):
            call()
