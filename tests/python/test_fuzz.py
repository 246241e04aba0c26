# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Whatever the public functions are called with, they return or raise an error that names the
argument; the interpreter lives on. GMA_FUZZ_EXAMPLES sets how many calls each test makes."""

import json
import os
import string

import pytest
import torch
from support import make_inputs, make_state

import gma_torch

pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("GMA_FUZZ_EXAMPLES", "100")),
    deadline=None,
    database=None,
    derandomize="GMA_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("fuzz")

REFUSALS = (TypeError, ValueError, NotImplementedError)
ARGUMENTS = (
    "query key value means variances prior_logits is_causal key_padding_mask cu_seqlens_q "
    "cu_seqlens_k initial_state return_state eps dropout_p dropout_seed state x context tokens "
    "padding_mask index config mixer hidden_size num_heads num_key_value_heads rotary_base"
).split()
DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.bool, torch.complex64, torch.uint8, torch.float8_e4m3fn,
]  # fmt: skip
OBJECTS = st.sampled_from(
    [None, True, 0, -1, 2**70, 0.5, -1.0, float("nan"), float("inf"), 1j, "a", b"", [], (), {}, object()]
)
HUGE = 2**45


def attempt(function, *args, **kwargs):
    """The result, or None for a refusal; anything but a refusal that names an argument fails."""
    try:
        return function(*args, **kwargs)
    except REFUSALS as error:
        message = str(error)
        named = any(message.startswith(name) for name in ARGUMENTS)
        # Python's own, for a missing or an unknown keyword.
        assert named or "argument" in message or "differentiated" in message, message
    except (RuntimeError, MemoryError) as error:
        # A tensor of a size that no machine holds.
        message = str(error)
        assert "alloc" in message or "overflow" in message or "too large" in message, message
    return None


@st.composite
def odd_tensors(draw, like=None):
    """A tensor of any rank, dtype, device, strides and contents; or, often, one that is nearly
    `like`."""
    is_plain = like is not None and like.layout == torch.strided and 0 < like.dim()
    if is_plain and like.numel() < 1000 and draw(st.booleans()):
        return draw(st.sampled_from(sorted(CHANGES)).map(lambda name: CHANGES[name](like)))
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 7]), max_size=5))
    dtype = draw(st.sampled_from(DTYPES))
    device = draw(st.sampled_from(["cpu", "cpu", "meta"]))
    return torch.ones(shape, device=device).to(dtype)


CHANGES = {
    "bfloat16": lambda x: x.bfloat16(),
    "cut": lambda x: x[..., :-1],
    "drop_axis": lambda x: x[0] if x.size(0) else x,
    "empty": lambda x: x[:0],
    "expanded": lambda x: x[..., :1].expand_as(x) if x.numel() else x,
    "float": lambda x: x.float(),
    "huge": lambda x: x[:1].expand(HUGE, *x.shape[1:]) if x.numel() else x,
    "huge_axis": lambda x: (
        x[:, :1].expand(x.size(0), HUGE, *x.shape[2:]) if x.dim() > 1 and x.numel() else x
    ),
    "inf": lambda x: torch.full_like(x, torch.inf) if x.is_floating_point() else x,
    "large": lambda x: x * 1e30,
    "meta": lambda x: x.to("meta"),
    "nan": lambda x: torch.full_like(x, torch.nan) if x.is_floating_point() else x,
    "negative": lambda x: -x.abs() - 1 if x.is_floating_point() else x,
    "requires_grad": lambda x: x.detach().clone().requires_grad_() if x.is_floating_point() else x,
    "sparse": lambda x: x if x.is_meta else x.to_sparse(),
    "strided": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "swapped": lambda x: x.transpose(0, -1) if x.dim() > 1 else x,
    "zero": torch.zeros_like,
}


@st.composite
def calls(draw, is_step=False):
    """Arguments that fit, of which up to three do not."""
    sizes = {
        name: draw(st.integers(low, 4))
        for name, low in (("batch", 0), ("queries", 0), ("components", 1), ("dim", 1), ("value_dim", 0))
    }
    heads, group = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    arguments = make_inputs(
        **(sizes | ({"queries": 1} if is_step else {})),
        heads=heads * group,
        key_heads=heads,
        dtype=draw(st.sampled_from([torch.float32, torch.float64, torch.bfloat16])),
        covariance_type=draw(st.sampled_from(["diag", "tied", "spherical"])),
    )
    state = make_state(arguments)
    if is_step:
        arguments |= {"state": state}
        others = ["eps"]
    else:
        batch, tokens = arguments["key"].shape[:2]
        fitting = {
            "is_causal": draw(st.booleans()),
            "key_padding_mask": torch.ones(batch, tokens, dtype=torch.bool),
            "initial_state": state,
            "return_state": draw(st.booleans()),
            "eps": draw(st.floats(0, 1)),
            "dropout_p": draw(st.floats(0, 0.9)),
            "dropout_seed": draw(st.integers(-(2**63), 2**63 - 1)),
        }
        for name in draw(st.lists(st.sampled_from(sorted(fitting)), max_size=4)):
            arguments[name] = fitting[name]
        others = [*fitting, "cu_seqlens_q", "cu_seqlens_k", "no_such_option"]
    for name in draw(st.lists(st.sampled_from([*arguments, *others]), max_size=3)):
        like = arguments.get(name)
        if draw(st.integers(0, 4)) == 0:
            arguments[name] = draw(OBJECTS)
        elif isinstance(like, tuple) and len(like) == 2:
            arguments[name] = tuple(draw(odd_tensors(each)) for each in like)
        else:
            arguments[name] = draw(odd_tensors(like if isinstance(like, torch.Tensor) else None))
    return arguments


@given(calls())
def test_attention(arguments):
    result = attempt(gma_torch.gaussian_mixture_attention, **arguments)
    if result is not None and result[0].requires_grad:
        attempt(torch.Tensor.backward, result[0].sum())


@given(calls())
def test_explain_refuses_no_more_than_the_call(arguments):
    if any(getattr(argument, "is_meta", False) for argument in arguments.values()):
        return
    explanation = attempt(gma_torch.explain, **arguments)
    result = attempt(gma_torch.gaussian_mixture_attention, **arguments)
    assert explanation is not None or result is None


@given(calls(is_step=True))
def test_step(arguments):
    attempt(gma_torch.gaussian_mixture_attention_step, **arguments)


@given(calls())
def test_responsibilities(arguments):
    names = ("means", "variances", "prior_logits")
    attempt(gma_torch.responsibilities, arguments["key"], *(arguments[name] for name in names))


MODULE = gma_torch.GaussianMixtureAttention(8, 2, num_components=3, use_short_conv=True)
CAUSAL = gma_torch.GaussianMixtureAttention(8, 2, num_components=3, is_causal=True)
MODEL = gma_torch.GmaForCausalLM(
    gma_torch.GmaConfig(vocab_size=9, hidden_size=8, num_layers=1, num_components=3, is_causal=True)
)


@given(
    odd_tensors(torch.ones(2, 3, 8)),
    st.none() | odd_tensors(torch.ones(2, 5, 8)),
    st.none() | odd_tensors(torch.ones(2, 3, dtype=torch.bool)),
)
def test_modules(x, context, mask):
    attempt(MODULE, x, context, key_padding_mask=mask)
    state = CAUSAL.initial_state(2)
    attempt(CAUSAL, x, key_padding_mask=mask, state=state)
    attempt(CAUSAL, x, state=state)
    assert state.position in (0, *(n * x.size(1) for n in (1, 2) if x.dim() == 3))


@given(odd_tensors(torch.ones(2, 3, dtype=torch.int64)), st.none() | odd_tensors(torch.ones(2, 3) > 0))
def test_models(tokens, mask):
    state = MODEL.initial_state(2)
    attempt(MODEL, tokens, padding_mask=mask, state=state)
    attempt(state.reorder, tokens)


@given(st.dictionaries(st.sampled_from(list(gma_torch.GmaConfig.__dataclass_fields__)), OBJECTS))
def test_configs(fields):
    try:
        config = gma_torch.GmaConfig(**fields)
    except (TypeError, ValueError) as error:
        assert any(str(error).startswith(name) for name in (*fields, "hidden_size")), str(error)
    else:
        assert gma_torch.GmaConfig.from_json(config.to_json()) == config


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(string.printable),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(string.printable), inner),
    max_leaves=5,
)


@settings(max_examples=50)
@given(JSON.map(json.dumps) | st.text())
def test_config_texts(text):
    attempt(gma_torch.GmaConfig.from_json, text)


@given(st.binary(max_size=200))
def test_checkpoint_files(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    header = len(content).to_bytes(8, "little")
    for data in (content, header + content):
        file.write_bytes(data)
        with pytest.raises(ValueError, match="expected a safetensors file"):
            gma_torch.load_checkpoint(file)
