# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The kernels against the plain ATen path, over shapes, options and dtypes."""

import pytest
import torch
from support import NAMES, assert_close, composite_attention, gradients, make_inputs, make_state

import gma_torch

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 5e-3}

SHAPES = {
    "one": {"queries": 1, "components": 1, "dim": 1, "value_dim": 1},
    "small": {"queries": 17, "components": 7, "dim": 3, "value_dim": 12},
    "cross": {"queries": 33, "keys": 129, "components": 5, "dim": 7, "value_dim": 9},
    "grouped": {"queries": 65, "heads": 6, "key_heads": 2, "components": 8, "dim": 8, "value_dim": 8},
    "odd": {"queries": 127, "heads": 3, "components": 65, "dim": 60, "value_dim": 33},
    "more_components_than_tokens": {"queries": 5, "components": 100, "dim": 4, "value_dim": 2},
    "long": {"batch": 1, "queries": 700, "components": 16, "dim": 16, "value_dim": 16},
    "tied": {"queries": 70, "components": 9, "dim": 12, "covariance_type": "tied"},
    "spherical": {"queries": 70, "components": 9, "dim": 12, "covariance_type": "spherical"},
}


def compare(inputs, options, tolerance):
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    state = options.get("initial_state")
    if state is not None:
        leaves += [tensor.requires_grad_() for tensor in state]
    results = []
    for attention in (gma_torch.gaussian_mixture_attention, composite_attention):
        output, final = attention(*leaves[:6], return_state=True, **options)
        outputs = [output, final.s, final.z]
        results.append(outputs + list(gradients(outputs, leaves)))
    names = ["output", "final_s", "final_z"] + [f"grad of {n}" for n in (*NAMES, "s", "z")]
    for name, actual, expected in zip(names, *results):
        assert actual.dtype == expected.dtype, name
        assert_close(actual, expected, tolerance, name)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize(
    ("shape", "is_causal"),
    [(shape, False) for shape in SHAPES] + [(shape, True) for shape in SHAPES if shape != "cross"],
)
def test_shapes(shape, is_causal, dtype):
    inputs = make_inputs(**SHAPES[shape], dtype=dtype)
    compare(inputs, {"is_causal": is_causal}, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_values_far_from_zero(is_causal, dtype):
    """A gradient that takes the rounded output for the sum loses what is small beside the mean."""
    inputs = make_inputs(queries=65, components=8, dim=8, value_dim=16, dtype=dtype)
    inputs["value"] = (inputs["value"].float() + 10).to(dtype)
    compare(inputs, {"is_causal": is_causal}, TOLERANCE[dtype])


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("tokens", [5, 300])
def test_mask(tokens, has_state, is_causal):
    inputs = make_inputs(batch=3, queries=tokens)
    mask = torch.rand(3, tokens, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[1] = False
    options = {"key_padding_mask": mask, "is_causal": is_causal}
    if has_state:
        options["initial_state"] = make_state(inputs)
    compare(inputs, options, 1e-11)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("integer", [torch.int32, torch.int64], ids=["int32", "int64"])
def test_packed(integer, has_state, is_causal):
    boundaries = torch.tensor([0, 0, 1, 17, 300, 300, 580], dtype=integer)
    inputs = make_inputs(batch=1, queries=580, heads=4, key_heads=2)
    options = {
        "cu_seqlens_q": boundaries,
        "cu_seqlens_k": boundaries,
        "is_causal": is_causal,
        # Packing wins over the mask.
        "key_padding_mask": torch.zeros(1, 580, dtype=torch.bool),
    }
    if has_state:
        options["initial_state"] = make_state(inputs, rows=6)
    compare(inputs, options, 1e-11)


@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c10_packed_is_separate_runs(is_causal):
    boundaries = [0, 0, 1, 17, 80, 80]
    inputs = make_inputs(batch=1, queries=80)
    state = make_state(inputs, rows=5)
    cu_seqlens = torch.tensor(boundaries)
    output, final = gma_torch.gaussian_mixture_attention(
        **inputs,
        is_causal=is_causal,
        cu_seqlens_q=cu_seqlens,
        cu_seqlens_k=cu_seqlens,
        initial_state=state,
        return_state=True,
    )
    for i, (begin, end) in enumerate(zip(boundaries, boundaries[1:])):
        part = {name: inputs[name][:, begin:end] for name in ("query", "key", "value")}
        alone, alone_final = gma_torch.gaussian_mixture_attention(
            **{**inputs, **part},
            is_causal=is_causal,
            initial_state=(state.s[i : i + 1], state.z[i : i + 1]),
            return_state=True,
        )
        assert_close(output[:, begin:end], alone, 1e-12, f"output of segment {i}")
        assert_close(final.s[i : i + 1], alone_final.s, 1e-12, f"S of segment {i}")
        assert_close(final.z[i : i + 1], alone_final.z, 1e-12, f"Z of segment {i}")


@pytest.mark.parametrize("seed", [0, 7, 2**62 + 12345])
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_dropout_takes_the_same_decisions(is_causal, seed):
    inputs = make_inputs(queries=300, components=9)
    options = {"is_causal": is_causal, "dropout_p": 0.25, "dropout_seed": seed}
    compare(inputs, options, 1e-11)


def test_dropout_of_packed_sequences():
    boundaries = torch.tensor([0, 3, 300])
    inputs = make_inputs(batch=1, queries=300, heads=4, key_heads=2)
    options = {"cu_seqlens_q": boundaries, "cu_seqlens_k": boundaries, "is_causal": True}
    compare(inputs, options | {"dropout_p": 0.5, "dropout_seed": 3}, 1e-11)


def test_dropout_seed_is_drawn_from_the_generator():
    inputs = make_inputs()

    def draw():
        return gma_torch.gaussian_mixture_attention(**inputs, dropout_p=0.5)[0]

    torch.manual_seed(0)
    first, second = draw(), draw()
    torch.manual_seed(0)
    assert torch.equal(draw(), first)
    assert not torch.equal(first, second)


def test_c14_whatever_is_masked_has_no_effect():
    inputs = make_inputs(queries=8)
    mask = torch.ones(2, 8, dtype=torch.bool)
    mask[:, 5:] = False
    spoilt = {name: tensor.clone() for name, tensor in inputs.items()}
    spoilt["key"][:, 5:] = torch.nan
    spoilt["value"][:, 5:] = torch.inf
    for attention in (gma_torch.gaussian_mixture_attention, composite_attention):
        results = []
        for values in (inputs, spoilt):
            leaves = [values[name].clone().requires_grad_() for name in NAMES]
            output, _ = attention(*leaves, key_padding_mask=mask)
            results.append([output, *gradients([output], leaves)])
        for clean, dirty in zip(*results):
            assert torch.equal(clean, dirty)


def test_responsibilities_are_a_posterior():
    inputs = make_inputs(queries=100)
    mixture = [inputs[name] for name in NAMES[3:]]
    gamma = gma_torch.responsibilities(inputs["query"], *mixture)
    assert gamma.shape == (2, 100, 2, 4)
    assert_close(gamma.sum(-1), torch.ones(2, 100, 2), 1e-14)
    difference = inputs["query"].unsqueeze(3) - inputs["means"]
    logits = inputs["prior_logits"] - 0.5 * (
        inputs["variances"].log() + difference.square() / inputs["variances"]
    ).sum(-1)
    assert_close(gamma, logits.softmax(-1), 1e-13)
