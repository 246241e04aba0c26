# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""torch.ops.gma.linear_attention: against an explicit affinity, the composite and differences."""

import pytest
import torch

import gma_torch  # noqa: F401  (loads the operators)

OPS = torch.ops.gma
MASK = torch.tensor([[True, True, False, True, False, True], [False] * 6])

CASES = {
    "bidirectional": ({}, {}),
    "causal": ({}, {"is_causal": True}),
    "one_token": ({"queries": 1, "keys": 1}, {"is_causal": True}),
    "cross": ({"queries": 3}, {}),
    "grouped": ({"heads": 4}, {}),
    "grouped_causal": ({"heads": 4}, {"is_causal": True}),
    "mask": ({}, {"key_padding_mask": MASK}),
    "mask_causal": ({}, {"key_padding_mask": MASK, "is_causal": True}),
    "large_eps": ({}, {"eps": 0.7}),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)


def make(queries=6, keys=6, heads=2, features=5, value_size=3, dtype=torch.float64, seed=1):
    """Features of query and key, value, and an initial state, for a batch of 2 and 2 key heads."""
    torch.manual_seed(seed)
    tensors = (
        torch.rand(2, queries, heads, features) + 0.05,
        torch.rand(2, keys, 2, features) + 0.05,
        torch.randn(2, keys, 2, value_size),
        torch.randn(2, 2, features, value_size),
        torch.rand(2, 2, features) + 0.1,
    )
    return [tensor.to(dtype) for tensor in tensors]


def call(op, options):
    def function(query, key, value, initial_s=None, initial_z=None):
        return op(
            query,
            key,
            value,
            **options,
            initial_s=initial_s,
            initial_z=initial_z,
            return_state=True,
        )

    return function


def explicit(query, key, value, is_causal=False, key_padding_mask=None, eps=1e-6):
    group = query.shape[2] // key.shape[2]
    affinity = torch.einsum("bihr,bjhr->bhij", query, key.repeat_interleave(group, 2))
    if is_causal:
        affinity = affinity.tril()
    if key_padding_mask is not None:
        affinity = affinity * key_padding_mask[:, None, None]
    numerator = torch.einsum("bhij,bjhd->bihd", affinity, value.repeat_interleave(group, 2))
    return numerator / (affinity.sum(-1).transpose(1, 2).unsqueeze(-1) + eps)


@EVERY_CASE
@pytest.mark.parametrize("op", [OPS.linear_attention, OPS._linear_attention_composite])
def test_equals_the_explicit_affinity(op, case):
    shape, options = CASES[case]
    tensors = [tensor.requires_grad_() for tensor in make(**shape)[:3]]
    output = op(*tensors, **options)[0]
    expected = explicit(*tensors, **options)
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(output.square().sum(), tensors),
        torch.autograd.grad(expected.square().sum(), tensors),
        rtol=1e-11,
        atol=1e-12,
    )


@EVERY_CASE
@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
def test_c25_gradcheck(case, has_state):
    shape, options = CASES[case]
    tensors = make(**shape)[: 5 if has_state else 3]
    tensors = [tensor.requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(call(OPS.linear_attention, options), tensors)


def test_c25_gradients_through_the_final_state_alone():
    def function(*tensors):
        _, s, z = call(OPS.linear_attention, {"is_causal": True})(*tensors)
        return s.square().sum() + z.square().sum()

    assert torch.autograd.gradcheck(function, [tensor.requires_grad_() for tensor in make()])


@pytest.mark.parametrize("index", range(5))
def test_c25_one_gradient_alone_is_the_same(index):
    def gradient(indices):
        tensors = make()
        for each in indices:
            tensors[each].requires_grad_()
        outputs = call(OPS.linear_attention, {"is_causal": True})(*tensors)
        sum(output.square().sum() for output in outputs).backward()
        return tensors[index].grad

    torch.testing.assert_close(gradient([index]), gradient(range(5)), rtol=1e-12, atol=1e-12)


def test_a_second_derivative_is_refused():
    tensors = [tensor.requires_grad_() for tensor in make()]
    output = call(OPS.linear_attention, {})(*tensors)[0]
    first = torch.autograd.grad(output.square().sum(), tensors, create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivative"):
        first[0].sum().backward()


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_agrees_with_the_composite_over_segments(is_causal):
    tensors = make(queries=700, keys=700, heads=4, dtype=torch.float32)
    options = {"is_causal": is_causal}
    fused = call(OPS.linear_attention, options)(*tensors)
    composite = call(OPS._linear_attention_composite, options)(*tensors)
    torch.testing.assert_close(fused, composite, rtol=1e-4, atol=1e-5)


def test_c09_pieces_equal_the_whole():
    query, key, value, s, z = make(queries=80, keys=80)
    run = call(OPS.linear_attention, {"is_causal": True})
    whole = run(query, key, value, s, z)
    outputs = []
    begin = 0
    for count in (37, 5, 1, 1, 36):
        part = [tensor[:, begin : begin + count] for tensor in (query, key, value)]
        output, s, z = run(*part, s, z)
        outputs.append(output)
        begin += count
    torch.testing.assert_close((torch.cat(outputs, 1), s, z), whole, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c26_same_bits_for_any_number_of_threads(is_causal):
    before = torch.get_num_threads()

    def run(threads):
        torch.set_num_threads(threads)
        tensors = make(queries=1100, keys=1100, features=16, dtype=torch.float32)
        tensors = [tensor.requires_grad_() for tensor in tensors]
        outputs = call(OPS.linear_attention, {"is_causal": is_causal})(*tensors)
        gradients = torch.autograd.grad(sum(output.square().sum() for output in outputs), tensors)
        return [*outputs, *gradients]

    try:
        serial = run(1)
        for threads in (2, 4):
            assert all(map(torch.equal, run(threads), serial))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("case", ["bidirectional", "causal", "mask"])
def test_c28_opcheck(case, has_state):
    options = dict(CASES[case][1])
    tensors = [tensor.requires_grad_() for tensor in make()]
    if has_state:
        options |= {"initial_s": tensors[3], "initial_z": tensors[4], "return_state": True}
    torch.library.opcheck(OPS.linear_attention.default, tuple(tensors[:3]), options)


def test_c28_compiles_to_the_same():
    tensors = [tensor.requires_grad_() for tensor in make()]
    function = call(OPS.linear_attention, {"is_causal": True})

    def gradients(run):
        output, s, z = run(*tensors)
        loss = output.square().sum() + s.sum() + z.sum()
        return output, torch.autograd.grad(loss, tensors)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(gradients(compiled), gradients(function), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_take_the_composite_path(dtype):
    query, key, value, *_ = make(dtype=dtype)
    output, s, _ = OPS.linear_attention(query, key, value, is_causal=True, return_state=True)
    assert (output.dtype, s.dtype) == (dtype, torch.float32)
    wide = explicit(query.double(), key.double(), value.double(), is_causal=True)
    torch.testing.assert_close(output.double(), wide, rtol=2e-2, atol=2e-2)


def test_c29_autocast_computes_in_float32():
    tensors = make(dtype=torch.float32)[:3]
    expected = OPS.linear_attention(*tensors)[0]
    with torch.autocast("cpu", torch.bfloat16):
        output = OPS.linear_attention(*tensors)[0]
        narrow = OPS.linear_attention(*[tensor.bfloat16() for tensor in tensors])[0]
    assert torch.equal(output, expected)
    assert narrow.dtype == torch.float32


def test_meta_has_the_shapes_of_the_cpu():
    tensors = make(heads=4)
    run = call(OPS.linear_attention, {"is_causal": True})
    meta = run(*[tensor.to("meta") for tensor in tensors])
    for expected, actual in zip(run(*tensors), meta, strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)


REFUSALS = {
    "features": (lambda t: t[1].resize_(2, 6, 2, 4), {}, ValueError, "key: expected shape"),
    "heads": (lambda t: t[0].resize_(2, 6, 3, 5), {}, ValueError, "multiple of key's 2, got 3"),
    "causal": (lambda t: t[0].resize_(2, 3, 2, 5), {"is_causal": True}, ValueError, "is_causal"),
    "eps": (lambda t: None, {"eps": -1.0}, ValueError, "eps: expected a finite number >= 0"),
    "mask": (lambda t: None, {"key_padding_mask": MASK[:1]}, ValueError, "key_padding_mask"),
    "mask_dtype": (
        lambda t: None,
        {"key_padding_mask": MASK.int()},
        TypeError,
        "key_padding_mask: expected dtype Bool",
    ),
    "half_a_state": (
        lambda t: None,
        {"initial_s": torch.zeros(2, 2, 5, 3, dtype=torch.float64)},
        ValueError,
        "initial_state.z: expected together with initial_state.s",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_by_name(name):
    spoil, options, error, message = REFUSALS[name]
    tensors = make()[:3]
    spoil(tensors)
    with pytest.raises(error, match=message.replace("(", r"\(")):
        OPS.linear_attention(*tensors, **options)


def test_refuses_other_dtypes():
    query, key, value, *_ = make()
    with pytest.raises(TypeError, match="key: expected dtype Double"):
        OPS.linear_attention(query, key.float(), value)
    with pytest.raises(TypeError, match="query: expected dtype"):
        OPS.linear_attention(query.int(), key.int(), value.int())
