# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The selective scan against a loop over tokens written here, and as an operator of torch."""

import pytest
import torch
from support import assert_close, gradients
from torch import Tensor

import gma_torch  # noqa: F401  (registers the operators)

NAMES = ("u", "delta", "A", "B", "C", "D", "initial_state")
SCAN = torch.ops.gma.selective_scan
COMPOSITE = torch.ops.gma._selective_scan_composite


def make_inputs(batch=2, tokens=7, channels=5, states=3, dtype=torch.float64) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    wide = torch.float64 if dtype == torch.float64 else torch.float32

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    return {
        "u": normal(batch, tokens, channels).to(dtype),
        "delta": torch.nn.functional.softplus(normal(batch, tokens, channels) - 2).to(dtype),
        "A": -normal(channels, states).exp().to(wide),
        "B": normal(batch, tokens, states).to(dtype),
        "C": normal(batch, tokens, states).to(dtype),
        "D": normal(channels).to(wide),
        "initial_state": normal(batch, channels, states).to(wide),
    }


def loop(u, delta, A, B, C, D, initial_state):
    """y and the final state, from the recurrence."""
    h = initial_state
    outputs = []
    for t in range(u.shape[1]):
        decay = torch.exp(torch.einsum("be,es->bes", delta[:, t], A))
        h = decay * h + torch.einsum("be,bs,be->bes", delta[:, t], B[:, t], u[:, t])
        outputs.append(torch.einsum("bes,bs->be", h, C[:, t]) + D * u[:, t])
    return torch.stack(outputs, 1), h


def run(function, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Both results and the gradients of everything through both."""
    leaves = [inputs[name].detach().requires_grad_() for name in NAMES]
    if function is not loop:
        y, state = function(*leaves[:6], initial_state=leaves[6], return_state=True)
    else:
        y, state = loop(*leaves)
    return [y, state, *gradients([y, state], leaves)]


@pytest.mark.parametrize("function", [SCAN, COMPOSITE], ids=["kernel", "composite"])
@pytest.mark.parametrize("tokens", [1, 7, 64, 150])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)], ids=["fp64", "fp32"]
)
def test_values_and_gradients_are_those_of_the_loop(dtype, tolerance, tokens, function):
    inputs = make_inputs(tokens=tokens, channels=70, states=5, dtype=dtype)
    expected = run(loop, inputs)
    for name, a, b in zip(("y", "state", *NAMES), run(function, inputs), expected):
        assert_close(a, b, tolerance, name)


def test_gradcheck():
    leaves = [tensor.requires_grad_() for tensor in make_inputs().values()]

    def function(*tensors):
        return SCAN(*tensors[:6], initial_state=tensors[6], return_state=True)

    assert torch.autograd.gradcheck(function, leaves)
    assert torch.autograd.gradcheck(lambda *x: SCAN(*x)[0], leaves[:6])
    # A gradient of the final state alone.
    assert torch.autograd.gradcheck(lambda *x: function(*x)[1], leaves)


def test_only_the_gradients_asked_for_are_computed():
    inputs = make_inputs()
    expected = dict(zip(NAMES, run(SCAN, inputs)[2:]))
    for name in NAMES:
        leaves = {n: t.detach().requires_grad_(n == name) for n, t in inputs.items()}
        state = leaves.pop("initial_state")
        outputs = SCAN(*leaves.values(), initial_state=state, return_state=True)
        (gradient,) = gradients(list(outputs), [state if name == "initial_state" else leaves[name]])
        assert torch.equal(gradient, expected[name]), name


def test_a_second_derivative_is_refused():
    inputs = [tensor.requires_grad_() for tensor in make_inputs().values()]
    y, _ = SCAN(*inputs[:6])
    (first,) = torch.autograd.grad(y.square().sum(), inputs[0], create_graph=True)
    with pytest.raises(NotImplementedError, match="selective_scan: expected to be differentiated once"):
        torch.autograd.grad(first.sum(), inputs[1])


def test_forward_mode_is_refused():
    inputs = make_inputs()
    with torch.autograd.forward_ad.dual_level():
        inputs["u"] = torch.autograd.forward_ad.make_dual(inputs["u"], torch.ones_like(inputs["u"]))
        with pytest.raises(NotImplementedError, match="forward-mode tangent of u"):
            SCAN(*list(inputs.values())[:6])


@pytest.mark.parametrize("needs_grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_narrow_dtypes_are_computed_in_float32(dtype, needs_grad):
    inputs = make_inputs(tokens=90, dtype=dtype)
    wide = {name: tensor.float() for name, tensor in inputs.items()}
    expected, final = SCAN(*list(wide.values())[:6], return_state=True)
    leaves = [inputs[name].requires_grad_(needs_grad) for name in NAMES[:6]]
    y, state = SCAN(*leaves, return_state=True)
    assert y.dtype == dtype and state.dtype == torch.float32
    assert torch.equal(y, expected.to(dtype)) and torch.equal(state, final)
    if needs_grad:
        y.float().sum().backward()
        assert all(leaf.grad.dtype == leaf.dtype for leaf in leaves)


def test_views_are_read_as_they_lie():
    inputs = make_inputs(tokens=9)
    expected = run(SCAN, inputs)
    fused = torch.cat([inputs["B"], inputs["C"]], -1)
    moved = dict(inputs)
    moved["B"], moved["C"] = fused.split(3, -1)
    for name in ("u", "delta"):
        moved[name] = inputs[name].transpose(0, 2).contiguous().transpose(0, 2)
    for a, b in zip(run(SCAN, moved), expected):
        assert torch.equal(a, b)
    broadcast = {**inputs, "delta": inputs["delta"][:, :1].expand(-1, 9, -1)}
    plain = {**broadcast, "delta": broadcast["delta"].contiguous()}
    assert torch.equal(SCAN(*list(broadcast.values())[:6])[0], SCAN(*list(plain.values())[:6])[0])


def test_threads_do_not_change_a_bit():
    inputs = make_inputs(batch=3, tokens=300, channels=200, states=16, dtype=torch.float32)
    expected = run(SCAN, inputs)
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            for a, b in zip(run(SCAN, inputs), expected):
                assert torch.equal(a, b)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize("shape", [{"tokens": 0}, {"batch": 0}, {"channels": 0}])
def test_empty_shapes(shape):
    inputs = make_inputs(**shape)
    leaves = [inputs[name].requires_grad_() for name in NAMES]
    y, state = SCAN(*leaves[:6], initial_state=leaves[6], return_state=True)
    assert y.shape == inputs["u"].shape and state.shape == inputs["initial_state"].shape
    if shape == {"tokens": 0}:
        assert torch.equal(state, inputs["initial_state"])
    (y.sum() + state.sum()).backward()
    assert all(leaf.grad.shape == leaf.shape and leaf.grad.isfinite().all() for leaf in leaves)


@pytest.mark.parametrize(
    ("name", "spoil", "error", "message"),
    [
        ("delta", lambda t: t[:, :-1], ValueError, r"delta: expected shape \(B, T, E\) = \[2, 7, 5\]"),
        ("A", lambda t: t[:, :0], ValueError, "A: expected at least one state, got S = 0"),
        ("A", lambda t: t[0], ValueError, r"A: expected shape \(E, S\)"),
        ("B", lambda t: t[..., :2], ValueError, r"B: expected shape \(B, T, S\) = \[2, 7, 3\]"),
        ("C", lambda t: t.float(), TypeError, "C: expected dtype Double for u of Double, got Float"),
        ("D", lambda t: t[:1], ValueError, r"D: expected shape \(E\) = \[5\]"),
        ("D", lambda t: t.to("meta"), ValueError, "D: expected device cpu as of u, got meta"),
        ("u", lambda t: t.long(), TypeError, "u: expected dtype Float, Double, BFloat16 or Half"),
        ("u", lambda t: t.to_sparse(), ValueError, "u: expected a strided tensor"),
        ("initial_state", lambda t: t[:1], ValueError, r"initial_state: expected shape \(B, E, S\)"),
    ],
)
def test_errors_name_the_argument(name, spoil, error, message):
    inputs = make_inputs()
    inputs[name] = spoil(inputs[name])
    state = inputs.pop("initial_state")
    for function in (SCAN, COMPOSITE):
        with pytest.raises(error, match=message):
            function(*inputs.values(), initial_state=state)


@pytest.mark.parametrize("has_state", [False, True], ids=["", "state"])
def test_opcheck(has_state):
    inputs = [tensor.requires_grad_() for tensor in make_inputs(tokens=70).values()]
    options = {"initial_state": inputs[6], "return_state": True} if has_state else {}
    torch.library.opcheck(SCAN.default, tuple(inputs[:6]), options)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compiled_equals_eager(dynamic):
    torch.compiler.reset()

    def block(*tensors):
        y, state = SCAN(*tensors[:6], initial_state=tensors[6], return_state=True)
        return torch.sin(y), state

    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for tokens in (70, 131):
        results = []
        for function in (block, compiled):
            leaves = [t.detach().requires_grad_() for t in make_inputs(tokens=tokens).values()]
            outputs = function(*leaves)
            results.append([*outputs, *gradients(list(outputs), leaves)])
        for a, b in zip(*results):
            assert a.stride() == b.stride()
            assert_close(b, a, 1e-12)


@pytest.mark.parametrize("device", ["CUDA", "XPU", "MPS", "PrivateUse1"])
def test_devices_without_kernels_have_the_composite(device):
    """No such device is here: the dispatcher tells what it would call."""
    table = torch._C._dispatch_dump_table("gma::selective_scan")
    kernels = dict(line.split(": ", 1) for line in table.splitlines())
    assert "default backend kernel" in kernels[device]
    assert "selective_scan_autograd.cc" in kernels[f"Autograd{device}"]
