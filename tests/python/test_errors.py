# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What cannot be used is refused, by the name of the argument."""

import os
import subprocess
import sys

import numpy
import pytest
import torch
from support import NAMES, composite_attention, make_inputs, make_state

import gma_torch

BOUNDARIES = torch.tensor([0, 3, 7])


def replaced(name, change):
    return lambda inputs: {**inputs, name: change(inputs[name])}


def options(**values):
    return lambda inputs: {**inputs, **values}


CASES = {
    "query_rank": (replaced("query", lambda t: t[0]), ValueError, r"^query: .*\(B, Tq, Hq, D\)"),
    "query_dtype": (replaced("query", lambda t: t.long()), TypeError, "^query: .*dtype"),
    "key_dtype": (replaced("key", lambda t: t.float()), TypeError, "^key: .*Double.*Float"),
    "value_dtype": (replaced("value", lambda t: t.bfloat16()), TypeError, "^value: "),
    "means_dtype": (replaced("means", lambda t: t.float()), TypeError, "^means: "),
    "variances_dtype": (replaced("variances", lambda t: t.half()), TypeError, "^variances: "),
    "prior_dtype": (replaced("prior_logits", lambda t: t.float()), TypeError, "^prior_logits: "),
    "key_device": (replaced("key", lambda t: t.to("meta")), ValueError, "^key: .*device"),
    "key_batch": (replaced("key", lambda t: t[:1]), ValueError, "^key: expected shape"),
    "key_size": (replaced("key", lambda t: t[..., :2]), ValueError, "^key: expected shape"),
    "value_tokens": (replaced("value", lambda t: t[:, :5]), ValueError, "^value: expected shape"),
    "heads": (replaced("query", lambda t: t[:, :, :1]), ValueError, "^query: .*multiple"),
    "means_heads": (replaced("means", lambda t: t[:1]), ValueError, "^means: expected shape"),
    "no_components": (replaced("means", lambda t: t[:, :0]), ValueError, "^means: .*K = 0"),
    "variances_shape": (replaced("variances", lambda t: t[:, :2]), ValueError, "^variances: "),
    "prior_shape": (replaced("prior_logits", lambda t: t[:, :2]), ValueError, "^prior_logits: "),
    "prior_all_off": (
        replaced("prior_logits", lambda t: torch.full_like(t, -torch.inf)),
        ValueError,
        "^prior_logits: expected a component that is not -inf in head 0",
    ),
    "prior_of_a_head_off": (
        replaced("prior_logits", lambda t: torch.stack([t[0], torch.full_like(t[1], -torch.inf)])),
        ValueError,
        "^prior_logits: expected a component that is not -inf in head 1",
    ),
    "causal_cross": (
        lambda inputs: {**inputs, "query": inputs["query"][:, :3], "is_causal": True},
        ValueError,
        "^is_causal: .*Tq = 3 and Tk = 7",
    ),
    "mask_dtype": (options(key_padding_mask=torch.ones(2, 7)), TypeError, "^key_padding_mask: "),
    "mask_shape": (
        options(key_padding_mask=torch.ones(7, 2, dtype=torch.bool)),
        ValueError,
        "^key_padding_mask: ",
    ),
    "mask_device": (
        options(key_padding_mask=torch.ones(2, 7, dtype=torch.bool, device="meta")),
        ValueError,
        "^key_padding_mask: ",
    ),
    "eps": (options(eps=-1.0), ValueError, "^eps: "),
    "eps_nan": (options(eps=float("nan")), ValueError, "^eps: "),
    "dropout_p": (options(dropout_p=1.0), ValueError, "^dropout_p: "),
    "state_rows": (
        lambda inputs: {**inputs, "initial_state": make_state(inputs, rows=3)},
        ValueError,
        "^initial_state.s: expected shape",
    ),
    "state_dtype": (
        lambda inputs: {**inputs, "initial_state": tuple(t.float() for t in make_state(inputs))},
        TypeError,
        "^initial_state.s: ",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(case):
    change, error, message = CASES[case]
    arguments = change(make_inputs())
    with pytest.raises(error, match=message):
        gma_torch.gaussian_mixture_attention(**arguments)
    positional = [arguments.pop(name) for name in NAMES]
    with pytest.raises(error, match=message):
        composite_attention(*positional, **arguments)


PACKED = {
    "alone": ({"cu_seqlens_q": BOUNDARIES}, "^cu_seqlens_k: expected together"),
    "other_alone": ({"cu_seqlens_k": BOUNDARIES}, "^cu_seqlens_q: expected together"),
    "start": (
        {"cu_seqlens_q": torch.tensor([1, 3, 7]), "cu_seqlens_k": BOUNDARIES},
        "^cu_seqlens_q: expected to start at 0, got 1",
    ),
    "decreasing": (
        {"cu_seqlens_q": torch.tensor([0, 8, 7]), "cu_seqlens_k": BOUNDARIES},
        "^cu_seqlens_q: expected non-decreasing",
    ),
    "end": (
        {"cu_seqlens_q": BOUNDARIES, "cu_seqlens_k": torch.tensor([0, 3, 6])},
        "^cu_seqlens_k: expected to end at T = 7, got 6",
    ),
    "count": (
        {"cu_seqlens_q": BOUNDARIES, "cu_seqlens_k": torch.tensor([0, 7])},
        "^cu_seqlens_k: expected as many",
    ),
    "empty": (
        {"cu_seqlens_q": torch.tensor([]).int(), "cu_seqlens_k": torch.tensor([]).int()},
        "^cu_seqlens_q: ",
    ),
    "causal": (
        {"cu_seqlens_q": BOUNDARIES, "cu_seqlens_k": torch.tensor([0, 2, 7]), "is_causal": True},
        "^cu_seqlens_k: ",
    ),
    "rank": ({"cu_seqlens_q": BOUNDARIES[None], "cu_seqlens_k": BOUNDARIES}, "^cu_seqlens_q: "),
}


@pytest.mark.parametrize("case", PACKED)
def test_c11_refusals_of_boundaries(case):
    values, message = PACKED[case]
    inputs = make_inputs(batch=1)
    for attention in (gma_torch.gaussian_mixture_attention, composite_attention):
        with pytest.raises(ValueError, match=message):
            attention(*inputs.values(), **values)
        with pytest.raises(ValueError, match="^cu_seqlens_q: .*B = 1"):
            attention(*make_inputs().values(), cu_seqlens_q=BOUNDARIES, cu_seqlens_k=BOUNDARIES)
    with pytest.raises(TypeError, match="^cu_seqlens_q: "):
        gma_torch.gaussian_mixture_attention(
            **inputs, cu_seqlens_q=BOUNDARIES.float(), cu_seqlens_k=BOUNDARIES
        )


def test_what_is_no_tensor_is_refused():
    inputs = make_inputs()
    with pytest.raises(TypeError, match="^value: expected a Tensor, got list"):
        gma_torch.gaussian_mixture_attention(**{**inputs, "value": [1.0]})
    with pytest.raises(TypeError, match="^key_padding_mask: expected a Tensor, got bool"):
        gma_torch.gaussian_mixture_attention(**inputs, key_padding_mask=True)
    with pytest.raises(TypeError, match="^initial_state: expected a pair"):
        gma_torch.gaussian_mixture_attention(**inputs, initial_state=inputs["query"])
    with pytest.raises(TypeError, match=r"^initial_state.z: expected a Tensor, got list"):
        gma_torch.gaussian_mixture_attention(**inputs, initial_state=(inputs["query"], [1.0]))
    with pytest.raises(TypeError, match="unexpected keyword argument 'causal'"):
        gma_torch.gaussian_mixture_attention(**inputs, causal=True)


PLAIN = {
    "eps_text": ({"eps": "a"}, TypeError, "^eps: expected a number, got str"),
    "eps_none": ({"eps": None}, TypeError, "^eps: expected a number, got NoneType"),
    "eps_flag": ({"eps": True}, TypeError, "^eps: expected a number, got bool"),
    "causal_text": ({"is_causal": "yes"}, TypeError, "^is_causal: expected a bool, got str"),
    "causal_none": ({"is_causal": None}, TypeError, "^is_causal: expected a bool, got NoneType"),
    "return_text": ({"return_state": "x"}, TypeError, "^return_state: expected a bool, got str"),
    "dropout_none": ({"dropout_p": None}, TypeError, "^dropout_p: expected a number, got NoneType"),
    "dropout_text": ({"dropout_p": "x"}, TypeError, "^dropout_p: expected a number, got str"),
    "dropout_nan": ({"dropout_p": float("nan")}, ValueError, "^dropout_p: expected a probability"),
    "seed_float": ({"dropout_seed": 1.5}, TypeError, "^dropout_seed: expected an int or None, got"),
    "seed_large": ({"dropout_seed": 2**63}, ValueError, "^dropout_seed: .* 64 bits, got 9223372036"),
}


@pytest.mark.parametrize("case", PLAIN)
def test_refusals_of_plain_arguments(case):
    values, error, message = PLAIN[case]
    with pytest.raises(error, match=message):
        gma_torch.gaussian_mixture_attention(**make_inputs(), **values)
    if "eps" in values:
        inputs = make_inputs(queries=1)
        with pytest.raises(error, match=message):
            gma_torch.gaussian_mixture_attention_step(**inputs, state=make_state(inputs), **values)


def test_numbers_of_numpy_are_numbers():
    inputs = make_inputs()
    expected, _ = gma_torch.gaussian_mixture_attention(
        **inputs, eps=0.5, dropout_p=0.25, dropout_seed=3
    )
    actual, _ = gma_torch.gaussian_mixture_attention(
        **inputs, eps=numpy.float32(0.5), dropout_p=numpy.float64(0.25), dropout_seed=numpy.int64(3)
    )
    assert torch.equal(actual, expected)


def elsewhere(name, tensors):
    return {**tensors, name: tensors[name].to("meta")}


def test_every_tensor_is_on_the_device_of_query():
    inputs = make_inputs(batch=1)
    given = {
        **inputs,
        "key_padding_mask": torch.ones(1, 7, dtype=torch.bool),
        "cu_seqlens_q": BOUNDARIES,
        "cu_seqlens_k": BOUNDARIES,
    }
    state = make_state(inputs, rows=2)._asdict()
    for name in list(given)[1:]:
        arguments = elsewhere(name, given)
        for attention in (gma_torch.gaussian_mixture_attention, composite_attention):
            with pytest.raises(ValueError, match=f"^{name}: expected device cpu as of query, got meta"):
                attention(*(arguments[each] for each in NAMES), **dict(list(arguments.items())[6:]))
    for half in state:
        with pytest.raises(ValueError, match=f"^initial_state.{half}: expected device cpu"):
            initial = tuple(elsewhere(half, state).values())
            gma_torch.gaussian_mixture_attention(**given, initial_state=initial)
    with pytest.raises(ValueError, match="^key: expected device meta as of query, got cpu"):
        gma_torch.gaussian_mixture_attention(**elsewhere("query", given))

    one = {n: t[:, :1] if n in NAMES[:3] else t for n, t in inputs.items()}
    state = make_state(inputs)._asdict()
    for name in NAMES[1:]:
        with pytest.raises(ValueError, match=f"^{name}: expected device cpu"):
            gma_torch.gaussian_mixture_attention_step(
                **elsewhere(name, one), state=tuple(state.values())
            )
    for half in state:
        with pytest.raises(ValueError, match=f"^state.{half}: expected device cpu"):
            gma_torch.gaussian_mixture_attention_step(
                **one, state=tuple(elsewhere(half, state).values())
            )
    for name in NAMES[3:]:
        mixture = [elsewhere(name, inputs)[each] for each in NAMES[3:]]
        with pytest.raises(ValueError, match=f"^{name}: expected device cpu as of x"):
            gma_torch.responsibilities(inputs["query"], *mixture)


def test_backward_checks_what_it_is_given():
    inputs = make_inputs()
    options = (False, *[None] * 5)
    output, s, z, *saved = torch.ops.gma._attention_forward(
        *inputs.values(), *options, True, 1e-6, 0.0, 0
    )
    upstream = {
        **dict(zip(("normalizer", "segment_s", "segment_z"), saved)),
        **dict(zip(("grad_output", "grad_final_s", "grad_final_z"), (output, s, z))),
    }

    def backward(given):
        torch.ops.gma._attention_backward(
            *inputs.values(), *options, 1e-6, 0.0, 0, *given.values(), [True] * 7
        )

    backward(upstream)
    for name, tensor in upstream.items():
        with pytest.raises(ValueError, match=f"^{name}: expected device cpu"):
            backward(elsewhere(name, upstream))
        with pytest.raises(TypeError, match=f"^{name}: expected dtype Double"):
            backward({**upstream, name: tensor.float()})
        with pytest.raises(ValueError, match=f"^{name}: expected shape"):
            backward({**upstream, name: tensor[0]})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", ["sparse", "nested", "jagged"])
def test_tensors_of_other_layouts_are_refused(layout):
    inputs = make_inputs(queries=1)
    state = make_state(inputs)

    def spoilt(tensor):
        if layout == "sparse":
            return tensor.to_sparse()
        return torch.nested.nested_tensor(
            list(tensor), layout=torch.jagged if layout == "jagged" else torch.strided
        )

    def refused(name):
        return pytest.raises(ValueError, match=f"^{name}: expected a strided tensor, got ")

    for name in NAMES[:3] if layout == "jagged" else NAMES:
        arguments = {**inputs, name: spoilt(inputs[name])}
        with refused(name):
            gma_torch.gaussian_mixture_attention(**arguments)
        with refused(name):
            torch.ops.gma.gaussian_mixture_attention(*arguments.values())
        with refused(name):
            gma_torch.gaussian_mixture_attention_step(**arguments, state=state)
    with refused("x"):
        gma_torch.responsibilities(spoilt(inputs["query"]), *(inputs[n] for n in NAMES[3:]))


RESPONSIBILITIES = {
    "x_no_tensor": ("x", lambda t: [1.0], TypeError, "^x: expected a Tensor, got list"),
    "x_rank": ("x", lambda t: t[0], ValueError, r"^x: expected shape \(B, T, H, D\)"),
    "x_dtype": ("x", lambda t: t.long(), TypeError, "^x: expected dtype .*, got Long"),
    "x_size": ("x", lambda t: t[..., :0], ValueError, "^x: expected a routing size D of at least 1"),
    "heads": ("means", lambda t: t[:1], ValueError, "^means: expected shape"),
    "means": ("means", lambda t: t.float(), TypeError, "^means: expected dtype Double for x"),
    "variances": ("variances", lambda t: t[:, :2], ValueError, "^variances: expected shape"),
    "priors": ("prior_logits", lambda t: t[:, :2], ValueError, "^prior_logits: expected shape"),
    "off": (
        "prior_logits",
        lambda t: torch.full_like(t, -torch.inf),
        ValueError,
        "^prior_logits: expected a component that is not -inf in head 0",
    ),
}


@pytest.mark.parametrize("case", RESPONSIBILITIES)
def test_refusals_of_responsibilities(case):
    name, change, error, message = RESPONSIBILITIES[case]
    inputs = make_inputs()
    arguments = {"x": inputs["query"]} | {each: inputs[each] for each in NAMES[3:]}
    with pytest.raises(error, match=message):
        gma_torch.responsibilities(**{**arguments, name: change(arguments[name])})


def test_refusals_of_the_step():
    inputs = make_inputs(queries=2)
    one = {n: t[:, :1] if n in NAMES[:3] else t for n, t in inputs.items()}
    state = make_state(inputs)
    step = gma_torch.gaussian_mixture_attention_step
    with pytest.raises(ValueError, match="^query: expected one token"):
        step(*inputs.values(), state)
    with pytest.raises(ValueError, match="^key: expected one token"):
        step(**{**one, "key": one["key"][:, 0]}, state=state)
    with pytest.raises(ValueError, match="^state.s: expected shape"):
        step(*one.values(), make_state(inputs, rows=1))
    with pytest.raises(TypeError, match="^state.z: expected dtype"):
        step(*one.values(), (state.s, state.z.float()))
    with pytest.raises(TypeError, match="^state: expected a pair"):
        step(*one.values(), state.s)
    with pytest.raises(TypeError, match="^key: expected dtype"):
        step(**{**one, "key": one["key"].float()}, state=state)


@pytest.mark.parametrize(("content", "message"), [(None, "not found"), (b"x", "does not load")])
def test_a_library_that_is_missing_or_broken(tmp_path, content, message):
    library = tmp_path / "libgma_torch.so"
    if content is not None:
        library.write_bytes(content)
    result = subprocess.run(
        [sys.executable, "-c", "import gma_torch"],
        env={**os.environ, "GMA_TORCH_LIBRARY": str(library)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: gma_torch: ")
    assert message in result.stderr and "make build" in result.stderr
