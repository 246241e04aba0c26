# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Any strides in, contiguous out, inputs left as they were, the same bits for any thread count."""

import pytest
import torch
from support import NAMES, assert_close, gradients, make_inputs, make_state

import gma_torch

DTYPES = [torch.float64, torch.float32]


def fused_slices(inputs):
    """query, key and value as slices of one (B, T, 3, H, D) projection."""
    fused = torch.stack([inputs[name] for name in NAMES[:3]], 2)
    return {**inputs, **dict(zip(NAMES, fused.unbind(2)))}


def heads_first(inputs):
    """Everything stored transposed."""
    return {
        name: tensor.transpose(0, 1).contiguous().transpose(0, 1) for name, tensor in inputs.items()
    } | {name: inputs[name].transpose(1, 2).contiguous().transpose(1, 2) for name in NAMES[:3]}


def last_axis_strided(inputs):
    return {
        name: torch.stack([tensor, torch.full_like(tensor, torch.nan)], -1)[..., 0]
        for name, tensor in inputs.items()
    }


def offset_by_one(inputs):
    def shifted(tensor):
        buffer = torch.full((tensor.numel() + 1,), torch.nan, dtype=tensor.dtype)
        buffer[1:] = tensor.flatten()
        return buffer[1:].view(tensor.shape)

    return {name: shifted(tensor) for name, tensor in inputs.items()}


def broadcast(inputs):
    """Stride 0 over the batch and, in the mixture, over the heads."""
    result = {name: inputs[name][:1].expand(2, -1, -1, -1) for name in NAMES[:3]}
    for name in NAMES[3:]:
        result[name] = inputs[name][:1].expand_as(inputs[name])
    return result


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp64", "fp32"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize(
    "layout", [fused_slices, heads_first, last_axis_strided, offset_by_one, broadcast]
)
def test_c24_strides_of_inputs(layout, is_causal, dtype):
    inputs = layout(make_inputs(queries=70, dim=8, value_dim=8, components=6, dtype=dtype))
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    state = make_state(inputs)
    state_views = layout(dict.fromkeys(NAMES[:3], state.s) | dict.fromkeys(NAMES[3:], state.z))

    def run(values, initial):
        leaves = [values[name].detach().requires_grad_() for name in NAMES]
        initial = tuple(tensor.detach().requires_grad_() for tensor in initial)
        output, final = gma_torch.gaussian_mixture_attention(
            *leaves, is_causal=is_causal, initial_state=initial, return_state=True
        )
        outputs = [output, *final]
        assert all(tensor.is_contiguous() for tensor in outputs)
        return outputs + list(gradients(outputs, leaves + list(initial)))

    views = (state_views["query"], state_views["means"])
    if layout is fused_slices:
        views = state
    contiguous = {name: tensor.contiguous() for name, tensor in inputs.items()}
    actual = run(inputs, views)
    expected = run(contiguous, tuple(tensor.contiguous() for tensor in views))
    for a, b in zip(actual, expected):
        assert torch.equal(a, b)
    for name, tensor in before.items():
        assert torch.equal(inputs[name], tensor), f"{name} was written to"


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c24_strides_of_upstream_gradients(is_causal):
    inputs = make_inputs(queries=70, value_dim=6)
    leaves = [inputs[name].requires_grad_() for name in NAMES]

    def run(reduce):
        output, state = gma_torch.gaussian_mixture_attention(
            *leaves, is_causal=is_causal, return_state=True
        )
        return torch.autograd.grad(reduce(output, state), leaves)

    def assert_same(reduce, weights):
        def weighted(output, state):
            return (output * weights(output)).sum() + (state.s * weights(state.s)).sum()

        for a, b in zip(run(reduce), run(weighted)):
            assert_close(a, b, 1e-13)

    assert_same(lambda output, state: output.sum() + state.s.sum(), torch.ones_like)

    def half(tensor):
        weights = torch.zeros_like(tensor)
        weights[..., :3] = 1
        return weights

    assert_same(
        lambda output, state: output.split(3, -1)[0].sum() + state.s.split(3, -1)[0].sum(), half
    )
    assert_same(
        lambda output, state: output.transpose(1, 2).flatten(2).sum()
        + state.s.transpose(2, 3).flatten(2).sum(),
        torch.ones_like,
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp64", "fp32"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("shape", [{"batch": 1, "heads": 1, "queries": 3000}, {"queries": 600}])
def test_c26_the_same_bits_for_any_number_of_threads(shape, is_causal, dtype):
    inputs = make_inputs(**shape, components=12, dim=8, value_dim=8, dtype=dtype)
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    threads = torch.get_num_threads()

    def run(count):
        torch.set_num_threads(count)
        output, state = gma_torch.gaussian_mixture_attention(
            *leaves, is_causal=is_causal, return_state=True
        )
        return [output, *state, *gradients([output, *state], leaves)]

    try:
        one, two, three = run(1), run(2), run(3)
    finally:
        torch.set_num_threads(threads)
    for a, b, c in zip(one, two, three):
        assert torch.equal(a, b) and torch.equal(a, c)
