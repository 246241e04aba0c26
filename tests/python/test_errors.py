# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What cannot be used is refused, by the name of the argument."""

import os
import subprocess
import sys

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
        "^prior_logits: ",
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
        "^initial_s: expected shape",
    ),
    "state_dtype": (
        lambda inputs: {**inputs, "initial_state": tuple(t.float() for t in make_state(inputs))},
        TypeError,
        "^initial_s: ",
    ),
    "batch_of_packed": (
        options(cu_seqlens_q=BOUNDARIES, cu_seqlens_k=BOUNDARIES),
        ValueError,
        "^cu_seqlens_q: .*B = 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refusals(case):
    change, error, message = CASES[case]
    arguments = change(make_inputs())
    with pytest.raises(error, match=message):
        gma_torch.gaussian_mixture_attention(**arguments)
    if case == "prior_all_off":
        return
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
def test_refusals_of_boundaries(case):
    values, message = PACKED[case]
    inputs = make_inputs(batch=1)
    for attention in (gma_torch.gaussian_mixture_attention, composite_attention):
        with pytest.raises(ValueError, match=message):
            attention(*inputs.values(), **values)
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
    with pytest.raises(TypeError, match="unexpected keyword argument 'causal'"):
        gma_torch.gaussian_mixture_attention(**inputs, causal=True)


def test_refusals_of_the_step():
    inputs = make_inputs(queries=2)
    one = {n: t[:, :1] if n in NAMES[:3] else t for n, t in inputs.items()}
    state = make_state(inputs)
    step = gma_torch.gaussian_mixture_attention_step
    with pytest.raises(ValueError, match="^query: expected one token"):
        step(*inputs.values(), state)
    with pytest.raises(ValueError, match="^key: expected one token"):
        step(**{**one, "key": one["key"][:, 0]}, state=state)
    with pytest.raises(ValueError, match="^s: expected shape"):
        step(*one.values(), make_state(inputs, rows=1))
    with pytest.raises(TypeError, match="^z: expected dtype"):
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
