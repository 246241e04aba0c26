# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The operators inside torch.compile, and what torch's own operator check says of them."""

import pytest
import torch
from support import NAMES, assert_close, composite_attention, gradients, make_inputs, make_state

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
def test_c28_opcheck(options, has_state):
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


def test_c28_opcheck_of_the_step():
    inputs = make_inputs(queries=1, requires_grad=True)
    token = [inputs[name][:, 0].detach().requires_grad_() for name in NAMES[:3]]
    mixture = [inputs[name] for name in NAMES[3:]]
    torch.library.opcheck(
        torch.ops.gma.gaussian_mixture_attention_step.default,
        (*token, *mixture, *make_state(inputs)),
    )


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c28_opcheck_of_forward_and_backward(is_causal):
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
def test_c28_compiled_equals_eager(options, dynamic, has_state):
    torch.compiler.reset()
    compiled = torch.compile(
        gma_torch.gaussian_mixture_attention, fullgraph=True, dynamic=dynamic, backend="aot_eager"
    )
    inputs = inputs_for(options)
    expected = run(gma_torch.gaussian_mixture_attention, inputs, options, has_state)
    assert_same(run(compiled, inputs, options, has_state), expected)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c28_lengths_do_not_recompile(is_causal):
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


def test_c28_inductor():
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


def test_c28_the_step_compiles():
    torch.compiler.reset()
    inputs = make_inputs(queries=1)
    state = make_state(inputs)
    compiled = torch.compile(
        gma_torch.gaussian_mixture_attention_step, fullgraph=True, backend="aot_eager"
    )
    expected_output, expected = gma_torch.gaussian_mixture_attention_step(*inputs.values(), state)
    output, new = compiled(*inputs.values(), state)
    assert_same([output, *new], [expected_output, *expected])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_c28_plain_aten_compiles(dynamic):
    """The composite and responsibilities: their look at the priors is left out while compiling."""
    torch.compiler.reset()
    inputs = make_inputs()

    def function(*tensors):
        output, state = composite_attention(*tensors, is_causal=True, return_state=True)
        return [output, *state, gma_torch.responsibilities(tensors[0], *tensors[3:])]

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    assert_same(compiled(*inputs.values()), function(*inputs.values()))


def assert_same_layout(real, symbolic):
    assert len(real) == len(symbolic)
    for a, b in zip(real, symbolic):
        assert b.is_meta and not a.is_meta
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("is_transposed", [False, True], ids=["contiguous", "transposed"])
def test_c28_meta_tensors_have_the_real_shapes_and_strides(is_transposed, is_causal):
    inputs = make_inputs(queries=600, heads=4, key_heads=2)
    state = make_state(inputs)
    if is_transposed:
        for name in NAMES[:3]:
            inputs[name] = inputs[name].transpose(1, 2).contiguous().transpose(1, 2)
    token = [inputs[name][:, 0] for name in NAMES[:3]]
    mixture = [inputs[name] for name in NAMES[3:]]

    def run(move):
        tensors = [move(tensor) for tensor in inputs.values()]
        options = (is_causal, *[None] * 5)
        outputs = list(torch.ops.gma._attention_forward(*tensors, *options, True, 1e-6, 0.0, 0))
        *upstream, normalizer, segment_s, segment_z = outputs
        saved = (normalizer, segment_s, segment_z)
        gradients = torch.ops.gma._attention_backward(
            *tensors, *options, 1e-6, 0.0, 0, *saved, *upstream, [True] * 6 + [False]
        )[:6]
        attended = torch.ops.gma.gaussian_mixture_attention(
            *tensors, is_causal=is_causal, return_state=True
        )
        step = torch.ops.gma.gaussian_mixture_attention_step(
            *(move(tensor) for tensor in (*token, *mixture, *state))
        )
        return [*outputs, *gradients, *attended, *step]

    real = run(lambda tensor: tensor)
    assert_same_layout(real, run(lambda tensor: tensor.to("meta")))
    assert real[0].is_contiguous()
