# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Steps, empty shapes, autocast, narrow dtypes and devices."""

import pytest
import torch
from support import NAMES, assert_close, composite_attention, gradients, make_inputs, make_state

import gma_torch

BOTH = pytest.mark.parametrize(
    "attention",
    [gma_torch.gaussian_mixture_attention, composite_attention],
    ids=["kernel", "composite"],
)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 1e-2)],
    ids=["fp64", "fp32", "bf16"],
)
@pytest.mark.parametrize("has_token_axis", [False, True], ids=["BHD", "B1HD"])
def test_c08_steps_are_the_causal_pass(has_token_axis, dtype, tolerance):
    inputs = make_inputs(queries=200, heads=4, key_heads=2, components=6, dtype=dtype)
    expected, final = gma_torch.gaussian_mixture_attention(
        **inputs, is_causal=True, return_state=True
    )
    rows = inputs["query"].shape[0]
    state = gma_torch.State(*(torch.zeros_like(t) for t in make_state(inputs, rows)))
    outputs = []
    for i in range(200):
        token = [inputs[name][:, i : i + 1] for name in NAMES[:3]]
        if not has_token_axis:
            token = [tensor.squeeze(1) for tensor in token]
        before = [tensor.clone() for tensor in state]
        output, new = gma_torch.gaussian_mixture_attention_step(
            *token, *(inputs[name] for name in NAMES[3:]), state
        )
        assert output.dim() == token[0].dim()
        assert all(torch.equal(a, b) for a, b in zip(before, state))
        outputs.append(output if has_token_axis else output.unsqueeze(1))
        state = new
    assert_close(torch.cat(outputs, 1), expected, tolerance, "output")
    assert_close(state.s, final.s, tolerance, "S")
    assert_close(state.z, final.z, tolerance, "Z")


def test_c09_a_pass_and_cached_calls_are_the_whole_pass():
    inputs = make_inputs(queries=173)
    mixture = [inputs[name] for name in NAMES[3:]]
    expected, final = gma_torch.gaussian_mixture_attention(
        **inputs, is_causal=True, return_state=True
    )
    state, outputs, begin = None, [], 0
    for count in (37, 5, 1, 1, 64, 65):
        part = [inputs[name][:, begin : begin + count] for name in NAMES[:3]]
        output, state = gma_torch.gaussian_mixture_attention(
            *part, *mixture, is_causal=True, initial_state=state, return_state=True
        )
        outputs.append(output)
        begin += count
    assert begin == 173
    assert_close(torch.cat(outputs, 1), expected, 1e-12)
    assert_close(state.s, final.s, 1e-12)
    assert_close(state.z, final.z, 1e-12)


EMPTY = {
    "no_tokens": {"queries": 0},
    "no_batch": {"batch": 0},
    "no_keys": {"queries": 3, "keys": 0},
    "no_queries": {"queries": 0, "keys": 3},
    "no_value_size": {"value_dim": 0},
}


@BOTH
@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("shape", EMPTY)
def test_c05_empty_shapes(shape, has_state, attention):
    inputs = make_inputs(**EMPTY[shape])
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    state = make_state(inputs) if has_state else None
    output, final = attention(*leaves, initial_state=state, return_state=True)
    batch, tokens, heads, _ = inputs["query"].shape
    assert output.shape == (batch, tokens, heads, inputs["value"].shape[3])
    assert torch.isfinite(output).all()
    (output.sum() + final.s.sum() + final.z.sum()).backward()
    for name, leaf in zip(NAMES, leaves):
        assert leaf.grad is not None and leaf.grad.shape == leaf.shape
        assert torch.isfinite(leaf.grad).all(), name
    if shape == "no_keys":
        if has_state:
            assert torch.equal(final.s, state.s) and torch.equal(final.z, state.z)
        else:
            assert not output.any() and not final.s.any() and not leaves[0].grad.any()
    if shape == "no_queries":
        assert not leaves[0].grad.any() and leaves[2].grad.any()


@BOTH
def test_c01_a_fully_padded_row(attention):
    inputs = make_inputs(batch=3, queries=9)
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[1] = False
    output, _ = attention(*leaves, key_padding_mask=mask)
    output.sum().backward()
    assert not output[1].any()
    for leaf in leaves[:3]:
        assert not leaf.grad[1].any()
    alone, _ = attention(*(leaf[2:] for leaf in leaves[:3]), *leaves[3:])
    assert_close(output[2:], alone, 0.0 if attention is not composite_attention else 1e-14)


@BOTH
def test_normaliser_of_zero_reads_zero(attention):
    inputs = make_inputs(queries=4)
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    mask = torch.zeros(2, 4, dtype=torch.bool)
    output, _ = attention(*leaves, key_padding_mask=mask, eps=0.0)
    output.sum().backward()
    assert not output.any()
    assert all(not leaf.grad.any() for leaf in leaves)


@BOTH
def test_c20_a_component_switched_off(attention):
    inputs = make_inputs(components=5)
    leaves = {name: tensor.clone() for name, tensor in inputs.items()}
    leaves["prior_logits"][:, 2] = -torch.inf
    leaves = {name: tensor.requires_grad_() for name, tensor in leaves.items()}
    output, state = attention(*leaves.values(), is_causal=True, return_state=True)
    output.sum().backward()
    kept = [0, 1, 3, 4]
    fewer = {
        name: leaves[name][:, kept] if name in NAMES[3:] else leaves[name] for name in NAMES
    }
    expected, _ = attention(*fewer.values(), is_causal=True)
    assert_close(output, expected, 1e-12)
    assert not state.z[:, :, 2].any()
    for name in NAMES[3:]:
        assert torch.isfinite(leaves[name].grad).all()
        assert not leaves[name].grad[:, 2].any(), name


@BOTH
@pytest.mark.parametrize("is_causal", [False, True], ids=["bidirectional", "causal"])
def test_c20_what_a_component_switched_off_holds_has_no_effect(is_causal, attention):
    results = []
    for held in (1.0, torch.nan):
        inputs = make_inputs(components=5)
        inputs["prior_logits"][:, 2] = -torch.inf
        inputs["means"][:, 2] = held
        inputs["variances"][:, 2] = held
        leaves = [inputs[name].requires_grad_() for name in NAMES]
        output, state = attention(*leaves, is_causal=is_causal, return_state=True)
        outputs = [output, *state]
        results.append(outputs + list(gradients(outputs, leaves)))
    for clean, dirty in zip(*results):
        assert torch.equal(clean, dirty)


def test_c20_responsibilities_of_a_component_switched_off():
    inputs = make_inputs(components=5)
    mixture = [inputs[name] for name in NAMES[3:]]
    mixture[2][:, 2] = -torch.inf
    expected = gma_torch.responsibilities(inputs["query"], *mixture)
    mixture[0][:, 2] = mixture[1][:, 2] = torch.nan
    assert torch.equal(gma_torch.responsibilities(inputs["query"], *mixture), expected)
    assert not expected[..., 2].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_narrow_dtypes_are_summed_in_float32(dtype):
    inputs = make_inputs(batch=1, queries=5000, dtype=dtype)
    inputs["value"] = torch.ones_like(inputs["value"])
    output, state = gma_torch.gaussian_mixture_attention(**inputs, return_state=True)
    assert output.dtype == dtype and state.z.dtype == torch.float32
    assert_close(output, torch.ones_like(output), 1e-7)
    assert_close(state.z.sum(-1) / 5000, torch.ones(1, 2), 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_c29_autocast_keeps_the_mixture_in_float32(dtype):
    inputs = make_inputs(dtype=torch.float32, requires_grad=True)
    with torch.autocast("cpu", dtype):
        output, state = gma_torch.gaussian_mixture_attention(**inputs, return_state=True)
        step, _ = gma_torch.gaussian_mixture_attention_step(
            *(inputs[name][:, :1] for name in NAMES[:3]), *(inputs[n] for n in NAMES[3:]), state
        )
    assert output.dtype == dtype and step.dtype == dtype
    assert state.s.dtype == torch.float32
    narrow = {n: t.detach().to(dtype) if n in NAMES[:3] else t for n, t in inputs.items()}
    expected, _ = gma_torch.gaussian_mixture_attention(**narrow)
    assert torch.equal(output, expected)
    output.float().sum().backward()
    assert all(inputs[name].grad.dtype == torch.float32 for name in NAMES)


def test_c29_autocast_leaves_float64_alone():
    inputs = make_inputs()
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = gma_torch.gaussian_mixture_attention(**inputs)
    assert torch.equal(output, gma_torch.gaussian_mixture_attention(**inputs)[0])


@BOTH
def test_c29_mixed_dtypes_are_refused(attention):
    inputs = make_inputs(dtype=torch.float32)
    inputs["key"] = inputs["key"].bfloat16()
    with pytest.raises(TypeError, match="^key: expected dtype Float for query of Float, got BFloat16"):
        attention(*inputs.values())


def test_c29_the_composite_computes_in_float32_under_autocast():
    inputs = make_inputs(dtype=torch.float32)
    mixture = [inputs[name] for name in NAMES[3:]]
    expected, state = composite_attention(*inputs.values(), is_causal=True, return_state=True)
    gamma = gma_torch.responsibilities(inputs["query"], *mixture)
    with torch.autocast("cpu", torch.bfloat16):
        actual, narrow = composite_attention(*inputs.values(), is_causal=True, return_state=True)
        assert torch.equal(gma_torch.responsibilities(inputs["query"], *mixture), gamma)
    assert torch.equal(actual, expected)
    assert torch.equal(narrow.s, state.s) and torch.equal(narrow.z, state.z)


@pytest.mark.parametrize("device", ["CUDA", "XPU", "MPS", "PrivateUse1"])
@pytest.mark.parametrize(
    "operator", ["gaussian_mixture_attention", "gaussian_mixture_attention_step"]
)
def test_c29_devices_without_kernels_have_the_composite(operator, device):
    """No such device is here: the dispatcher tells what it would call."""
    table = torch._C._dispatch_dump_table(f"gma::{operator}")
    kernels = dict(line.split(": ", 1) for line in table.splitlines())
    assert "composite.cc" in kernels[device]
    assert "autograd.cc" in kernels[f"Autograd{device}"]
    assert "cpu.cc" in kernels["CPU"]


def test_c30_a_saved_state_continues_with_the_same_bits(tmp_path):
    inputs = make_inputs(queries=12)
    mixture = [inputs[name] for name in NAMES[3:]]
    start, rest = ([inputs[n][:, part] for n in NAMES[:3]] for part in (slice(8), slice(8, 12)))
    _, state = gma_torch.gaussian_mixture_attention(
        *start, *mixture, is_causal=True, return_state=True
    )
    torch.save(tuple(state), tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt")
    results = [
        gma_torch.gaussian_mixture_attention(
            *rest, *mixture, is_causal=True, initial_state=each, return_state=True
        )
        for each in (state, loaded)
    ]
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(a, b) for a, b in zip(results[0][1], results[1][1]))


def test_c30_reordered_beams_are_separate_runs():
    inputs = make_inputs(batch=3, queries=9)
    mixture = [inputs[name] for name in NAMES[3:]]
    prompt, token = ([inputs[n][:, part] for n in NAMES[:3]] for part in (slice(8), slice(8, 9)))
    order = torch.tensor([2, 0, 0, 1])

    def decode(prompt, token, reorder=lambda state: state):
        _, state = gma_torch.gaussian_mixture_attention(
            *prompt, *mixture, is_causal=True, return_state=True
        )
        return gma_torch.gaussian_mixture_attention_step(*token, *mixture, reorder(state))

    output, state = decode(
        prompt,
        [tensor[order] for tensor in token],
        lambda state: gma_torch.State(*(tensor[order] for tensor in state)),
    )
    for row, beam in enumerate(order.tolist()):
        alone, alone_state = decode(*([t[beam : beam + 1] for t in part] for part in (prompt, token)))
        assert torch.equal(output[row], alone[0])
        assert all(torch.equal(a[row], b[0]) for a, b in zip(state, alone_state))


@pytest.mark.parametrize("change", [{"components": 3}, {"heads": 1}, {"batch": 3}])
def test_c30_a_state_of_another_size_is_refused(change):
    inputs = make_inputs(queries=1)
    state = make_state(make_inputs(queries=1, **change))
    with pytest.raises(ValueError, match=r"^initial_state.s: expected shape .*Hk, K, Dv"):
        gma_torch.gaussian_mixture_attention(**inputs, is_causal=True, initial_state=state)
    with pytest.raises(ValueError, match=r"^state.s: expected shape .*Hk, K, Dv"):
        gma_torch.gaussian_mixture_attention_step(**inputs, state=state)


def test_the_seed_is_drawn_whatever_the_default_device():
    inputs = make_inputs()
    torch.manual_seed(0)
    expected, _ = gma_torch.gaussian_mixture_attention(**inputs, dropout_p=0.5)
    torch.manual_seed(0)
    with torch.device("meta"):
        output, _ = gma_torch.gaussian_mixture_attention(**inputs, dropout_p=0.5)
    assert torch.equal(output, expected)


def test_inference_mode():
    inputs = make_inputs(queries=40)
    expected, _ = gma_torch.gaussian_mixture_attention(**inputs, is_causal=True)
    with torch.inference_mode():
        output, state = gma_torch.gaussian_mixture_attention(
            **inputs, is_causal=True, return_state=True
        )
        gma_torch.gaussian_mixture_attention_step(
            *(inputs[name][:, :1] for name in NAMES[:3]), *(inputs[n] for n in NAMES[3:]), state
        )
    assert torch.equal(output, expected)


def test_descent_lowers_a_loss():
    """A few steps of descent on the mixture lower the loss."""
    torch.manual_seed(0)
    inputs = make_inputs(queries=64, components=8, dtype=torch.float32, requires_grad=True)
    target = torch.randn(2, 64, 2, 5)
    optimiser = torch.optim.Adam(list(inputs.values()), 1e-2)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        output, _ = gma_torch.gaussian_mixture_attention(**inputs, is_causal=True)
        loss = torch.nn.functional.mse_loss(output, target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


def test_a_state_reorders_and_copies():
    """Beams continue as their sequences would alone."""
    inputs = make_inputs(queries=40)
    _, state = gma_torch.gaussian_mixture_attention(**inputs, is_causal=True, return_state=True)
    moved = state.reorder(torch.tensor([1, 0, 1])).to("cpu")
    assert torch.equal(moved.s, state.s[[1, 0, 1]]) and torch.equal(moved.z, state.z[[1, 0, 1]])
    copy = state.clone()
    copy.z.zero_()
    assert state.z.sum() > 0
    with pytest.raises(ValueError, match=r"index: expected values in \[0, 2\), got 2"):
        state.reorder(torch.tensor([2]))
