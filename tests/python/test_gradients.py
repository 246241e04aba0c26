# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Gradients by finite differences, in float64, through the output and the final state."""

import pytest
import torch
from support import NAMES, composite_attention, make_inputs, make_state
from torch.autograd import forward_ad

import gma_torch

MASK = torch.tensor([[True, True, False, True, False], [False, False, False, False, False]])
BOUNDARIES = torch.tensor([0, 0, 1, 4, 7])

CASES = {
    "bidirectional": ({}, {}),
    "causal": ({}, {"is_causal": True}),
    "one_token": ({"queries": 1}, {"is_causal": True}),
    "cross": ({"queries": 3, "keys": 6}, {}),
    "grouped": ({"queries": 5, "heads": 4, "key_heads": 2}, {}),
    "grouped_causal": ({"queries": 5, "heads": 4, "key_heads": 2}, {"is_causal": True}),
    "mask": ({"queries": 5}, {"key_padding_mask": MASK}),
    "mask_causal": ({"queries": 5}, {"key_padding_mask": MASK, "is_causal": True}),
    "packed": (
        {"batch": 1, "queries": 5, "keys": 7},
        {"cu_seqlens_q": torch.tensor([0, 1, 1, 3, 5]), "cu_seqlens_k": BOUNDARIES},
    ),
    "packed_causal": (
        {"batch": 1, "queries": 7},
        {"cu_seqlens_q": BOUNDARIES, "cu_seqlens_k": BOUNDARIES.int(), "is_causal": True},
    ),
    "dropout": ({}, {"dropout_p": 0.3, "dropout_seed": 5}),
    "dropout_causal": ({}, {"dropout_p": 0.3, "dropout_seed": 5, "is_causal": True}),
    "large_eps": ({}, {"eps": 0.7}),
    "tied": ({"covariance_type": "tied"}, {}),
    "tied_causal": ({"covariance_type": "tied"}, {"is_causal": True}),
    "spherical": ({"covariance_type": "spherical"}, {}),
    "spherical_causal": ({"covariance_type": "spherical"}, {"is_causal": True}),
}


def leaves(shape, options, has_state):
    inputs = make_inputs(**shape)
    tensors = [inputs[name] for name in NAMES]
    if has_state:
        cu_seqlens = options.get("cu_seqlens_q")
        tensors += make_state(inputs, rows=None if cu_seqlens is None else len(cu_seqlens) - 1)
    return [tensor.requires_grad_() for tensor in tensors]


def call(attention, options):
    def function(*tensors):
        state = tuple(tensors[6:]) or None
        output, final = attention(
            *tensors[:6], initial_state=state, return_state=True, **options
        )
        return output, final.s, final.z

    return function


@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("case", CASES)
def test_c25_gradcheck(case, has_state):
    shape, options = CASES[case]
    function = call(gma_torch.gaussian_mixture_attention, options)
    assert torch.autograd.gradcheck(function, leaves(shape, options, has_state))


def test_c25_gradcheck_of_the_composite():
    shape, options = CASES["mask_causal"]
    assert torch.autograd.gradcheck(call(composite_attention, options), leaves(shape, options, True))


def test_c25_gradients_through_the_final_state_alone():
    inputs = make_inputs(queries=4)
    tensors = [inputs[name].requires_grad_() for name in NAMES]

    def function(*args):
        _, state = gma_torch.gaussian_mixture_attention(*args, is_causal=True, return_state=True)
        return state.s.square().sum() + state.z.square().sum()

    assert torch.autograd.gradcheck(function, tensors)


def test_c25_gradients_of_a_pass_in_two_parts():
    inputs = make_inputs(queries=6)
    tensors = [inputs[name].requires_grad_() for name in NAMES]

    def whole(*args):
        return gma_torch.gaussian_mixture_attention(*args, is_causal=True)[0]

    def parts(query, key, value, *mixture):
        first, state = gma_torch.gaussian_mixture_attention(
            query[:, :2], key[:, :2], value[:, :2], *mixture, is_causal=True, return_state=True
        )
        second, _ = gma_torch.gaussian_mixture_attention(
            query[:, 2:], key[:, 2:], value[:, 2:], *mixture, is_causal=True, initial_state=state
        )
        return torch.cat([first, second], 1)

    expected = torch.autograd.grad(whole(*tensors).square().sum(), tensors)
    actual = torch.autograd.grad(parts(*tensors).square().sum(), tensors)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)


def test_c25_gradcheck_of_the_step():
    inputs = make_inputs(queries=1)
    state = make_state(inputs)
    tensors = [inputs[name].requires_grad_() for name in NAMES] + [t.requires_grad_() for t in state]

    def function(*args):
        output, new = gma_torch.gaussian_mixture_attention_step(*args[:6], tuple(args[6:]))
        return output, new.s, new.z

    assert torch.autograd.gradcheck(function, tensors)


@pytest.mark.parametrize("name", NAMES)
def test_c25_one_gradient_alone_is_the_same(name):
    def gradient(names):
        inputs = make_inputs(queries=9)
        for each in names:
            inputs[each].requires_grad_()
        output, _ = gma_torch.gaussian_mixture_attention(**inputs, is_causal=True)
        output.square().sum().backward()
        return inputs[name].grad

    torch.testing.assert_close(gradient([name]), gradient(NAMES), rtol=1e-12, atol=1e-12)


def test_c25_second_derivative_is_refused():
    inputs = make_inputs(requires_grad=True)
    output, _ = gma_torch.gaussian_mixture_attention(**inputs)
    (gradient,) = torch.autograd.grad(output.square().sum(), inputs["query"], create_graph=True)
    assert torch.isfinite(gradient).all()
    with pytest.raises(NotImplementedError, match="second derivative"):
        gradient.sum().backward()


def dual(inputs, name):
    return {**inputs, name: forward_ad.make_dual(inputs[name], torch.ones_like(inputs[name]))}


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_is_refused(name):
    inputs = make_inputs(queries=1)
    state = make_state(inputs)
    message = f"expected to be differentiated in reverse mode, got a forward-mode tangent of {name}"

    def refused(operator):
        return pytest.raises(NotImplementedError, match=f"^{operator}: {message}")

    def attend(tensor):
        return gma_torch.gaussian_mixture_attention(**{**inputs, name: tensor})[0]

    with refused("gaussian_mixture_attention"):
        torch.func.jvp(attend, (inputs[name],), (torch.ones_like(inputs[name]),))
    with forward_ad.dual_level():
        with refused("gaussian_mixture_attention"):
            gma_torch.gaussian_mixture_attention(**dual(inputs, name))
        with refused("gaussian_mixture_attention"), torch.no_grad():
            composite_attention(*dual(inputs, name).values())
        with refused("gaussian_mixture_attention_step"):
            gma_torch.gaussian_mixture_attention_step(**dual(inputs, name), state=state)
        if name == "means":
            with refused("responsibilities"):
                mixture = [dual(inputs, name)[each] for each in NAMES[3:]]
                gma_torch.responsibilities(inputs["query"], *mixture)


@pytest.mark.parametrize("half", ["s", "z"])
def test_forward_mode_of_the_state_is_refused(half):
    inputs = make_inputs(queries=1)
    state = make_state(inputs)
    with forward_ad.dual_level():
        tangent = state._replace(**{half: dual(state._asdict(), half)[half]})
        with pytest.raises(NotImplementedError, match=f"tangent of initial_state.{half}"):
            gma_torch.gaussian_mixture_attention(**inputs, initial_state=tangent)
        with pytest.raises(NotImplementedError, match=f"tangent of state.{half}"):
            gma_torch.gaussian_mixture_attention_step(**inputs, state=tangent)


def test_forward_mode_over_reverse_mode_is_refused():
    inputs = make_inputs(requires_grad=True)
    output, _ = gma_torch.gaussian_mixture_attention(**inputs)
    with forward_ad.dual_level():
        upstream = forward_ad.make_dual(torch.ones_like(output), torch.ones_like(output))
        with pytest.raises(NotImplementedError, match="tangent of grad_output"):
            torch.autograd.grad(output, inputs["query"], upstream)


def test_c25_second_derivative_of_the_composite():
    inputs = make_inputs(batch=1, queries=3, heads=1, components=2, dim=2, value_dim=2)
    tensors = [inputs[name].requires_grad_() for name in NAMES]

    def function(*args):
        return composite_attention(*args, is_causal=True)[0]

    assert torch.autograd.gradgradcheck(function, tensors)
