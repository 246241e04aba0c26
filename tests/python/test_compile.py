# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The operators inside torch.compile, and what torch's own operator check says of them."""

import pytest
import torch
from support import NAMES, assert_close, gradients, make_inputs, make_state

import gma_torch

OPTIONS = {
    "bidirectional": {},
    "causal": {"is_causal": True},
    "mask": {"key_padding_mask": torch.tensor([[True] * 5 + [False] * 2] * 2)},
    "packed": {"cu_seqlens_q": torch.tensor([0, 2, 7]), "cu_seqlens_k": torch.tensor([0, 3, 7])},
    "packed_causal": {
        "cu_seqlens_q": torch.tensor([0, 2, 7]),
        "cu_seqlens_k": torch.tensor([0, 2, 7]),
        "is_causal": True,
    },
    "dropout": {"dropout_p": 0.25, "dropout_seed": 9},
}


def inputs_for(options, **shape):
    return make_inputs(batch=1 if "cu_seqlens_q" in options else 2, **shape)


@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_opcheck(options, has_state):
    inputs = inputs_for(options, requires_grad=True)
    options = dict(options)
    if has_state:
        s, z = make_state(inputs, rows=2 if "cu_seqlens_q" in options else None)
        options |= {
            "initial_s": s.requires_grad_(),
            "initial_z": z.requires_grad_(),
            "return_state": True,
        }
    torch.library.opcheck(
        torch.ops.gma.gaussian_mixture_attention.default, tuple(inputs.values()), options
    )


def test_opcheck_of_the_step():
    inputs = make_inputs(queries=1, requires_grad=True)
    token = [inputs[name][:, 0].detach().requires_grad_() for name in NAMES[:3]]
    mixture = [inputs[name] for name in NAMES[3:]]
    torch.library.opcheck(
        torch.ops.gma.gaussian_mixture_attention_step.default,
        (*token, *mixture, *make_state(inputs)),
    )


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_opcheck_of_forward_and_backward(is_causal):
    inputs = make_inputs(queries=600)
    none = [None] * 5
    forward = (*inputs.values(), is_causal, *none, True, 1e-6, 0.0, 0)
    torch.library.opcheck(torch.ops.gma._attention_forward.default, forward)
    output, s, z, *saved = torch.ops.gma._attention_forward(*forward)
    upstream = [torch.ones_like(output), torch.ones_like(s), torch.ones_like(z)]
    backward = (*inputs.values(), is_causal, *none, 1e-6, 0.0, 0, *saved, *upstream)
    torch.library.opcheck(torch.ops.gma._attention_backward.default, (*backward, [True] * 7))


def run(function, inputs, options, has_state):
    leaves = [inputs[name].detach().requires_grad_() for name in NAMES]
    state = None
    if has_state:
        rows = len(options["cu_seqlens_q"]) - 1 if "cu_seqlens_q" in options else None
        state = tuple(tensor.requires_grad_() for tensor in make_state(inputs, rows))
        leaves += state
    output, final = function(*leaves[:6], initial_state=state, return_state=has_state, **options)
    outputs = [output, *final] if has_state else [output]
    return outputs + list(gradients(outputs, leaves))


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        assert a.dtype == b.dtype and a.stride() == b.stride()
        assert_close(a, b, 1e-12)


@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_compiled_equals_eager(options, dynamic, has_state):
    torch.compiler.reset()
    compiled = torch.compile(
        gma_torch.gaussian_mixture_attention, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    inputs = inputs_for(options)
    expected = run(gma_torch.gaussian_mixture_attention, inputs, options, has_state)
    assert_same(run(compiled, inputs, options, has_state), expected)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_lengths_do_not_recompile(is_causal):
    torch.compiler.reset()
    compilations = []

    def backend(graph, example_inputs):
        compilations.append(graph)
        return graph.forward

    compiled = torch.compile(
        gma_torch.gaussian_mixture_attention, fullgraph=True, dynamic=True, backend=backend
    )
    for length in (7, 300, 31, 700):
        inputs = make_inputs(queries=length)
        options = {"is_causal": is_causal}
        expected = run(gma_torch.gaussian_mixture_attention, inputs, options, False)
        assert_same(run(compiled, inputs, options, False), expected)
    assert len(compilations) == 1


def test_inductor():
    torch.compiler.reset()

    def block(*tensors):
        output, state = gma_torch.gaussian_mixture_attention(
            *tensors, is_causal=True, return_state=True
        )
        return torch.sin(output) * 2, state

    compiled = torch.compile(block, fullgraph=True)
    inputs = make_inputs(queries=300)

    def call(function):
        leaves = [inputs[name].detach().requires_grad_() for name in NAMES]
        output, state = function(*leaves)
        return [output, *state, *gradients([output, *state], leaves)]

    assert_same(call(compiled), call(block))


def test_the_step_compiles():
    torch.compiler.reset()
    inputs = make_inputs(queries=1)
    state = make_state(inputs)
    compiled = torch.compile(
        gma_torch.gaussian_mixture_attention_step, fullgraph=True, backend="aot_eager"
    )
    expected_output, expected = gma_torch.gaussian_mixture_attention_step(*inputs.values(), state)
    output, new = compiled(*inputs.values(), state)
    assert_same([output, *new], [expected_output, *expected])


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_meta_tensors_have_the_real_shapes_and_strides(is_causal):
    inputs = make_inputs(queries=600, heads=4, key_heads=2)
    meta = {name: tensor.to("meta") for name, tensor in inputs.items()}
    results = []
    for values in (inputs, meta):
        forward = (*values.values(), is_causal, *[None] * 5, True, 1e-6, 0.0, 0)
        results.append(torch.ops.gma._attention_forward(*forward))
    for real, symbolic in zip(*results):
        assert symbolic.is_meta
        assert (real.shape, real.stride(), real.dtype) == (
            symbolic.shape,
            symbolic.stride(),
            symbolic.dtype,
        )
    assert results[0][0].is_contiguous()
