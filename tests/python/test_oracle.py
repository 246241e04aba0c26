# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Values and every gradient against vectors computed elsewhere in float64."""

from pathlib import Path

import numpy
import pytest
import torch
from support import composite_attention

import gma_torch

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "oracle"
CASES = sorted(path.name for path in FOLDER.glob("*.npz"))

if not CASES:
    pytest.skip(f"no vectors in {FOLDER}", allow_module_level=True)


def assert_relative(actual, expected, tolerance, what):
    """The largest error, relative to the largest element."""
    actual = actual.detach().double().numpy()
    assert actual.shape == expected.shape, what
    error = numpy.abs(actual - expected).max() / max(numpy.abs(expected).max(), 1e-30)
    assert error <= tolerance, f"{what}: relative error {error:.3e} > {tolerance:.0e}"


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-4)], ids=["fp64", "fp32"]
)
@pytest.mark.parametrize(
    "attention",
    [gma_torch.gaussian_mixture_attention, composite_attention],
    ids=["kernel", "composite"],
)
@pytest.mark.parametrize("case", CASES)
def test_oracle_vectors(case, attention, dtype, tolerance):
    data = numpy.load(FOLDER / case)

    def leaf(name):
        return torch.from_numpy(data[name]).to(dtype).requires_grad_()

    q, k, v, mu, omega, alpha = (leaf(name) for name in ("q", "k", "v", "mu", "omega", "alpha"))
    sigma2 = torch.nn.functional.softplus(omega) + float(data["sigma_floor"])
    sigma2.retain_grad()
    has_state = bool(data["has_state"])
    state = (leaf("V0"), leaf("Z0")) if has_state else None
    output, final = attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        mu,
        sigma2,
        alpha,
        is_causal=bool(data["causal"]),
        key_padding_mask=torch.from_numpy(data["mask"]).bool() if data["has_mask"] else None,
        initial_state=state,
        return_state=True,
        eps=float(data["eps"]),
    )
    output.backward(torch.from_numpy(data["do"]).to(dtype).transpose(1, 2))

    checks = {
        "o": output.transpose(1, 2),
        "dq": q.grad,
        "dk": k.grad,
        "dv": v.grad,
        "dmu": mu.grad,
        "domega": omega.grad,
        "dsigma2": sigma2.grad,
        "dalpha": alpha.grad,
    }
    if "Vn" in data:
        checks |= {"Vn": final.s, "Zn": final.z}
    if has_state:
        checks |= {"dV0": state[0].grad, "dZ0": state[1].grad}
    for name, actual in checks.items():
        assert_relative(actual, data[name], tolerance, f"{case} {name}")
