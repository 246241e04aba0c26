# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma profile: what it writes, and what it refuses."""

import json
from pathlib import Path

from conftest import gma_fails, gma_ok

SMALL = ("profile", "--hidden-size=16", "--heads=2", "--components=4", "--seconds=0.01",
         "--threads=1")
QUICK = (*SMALL, "--tokens=16,32")


def test_a_profile_makes_table_numbers_and_page(tmp_path: Path) -> None:
    out = tmp_path / "profile"
    said = gma_ok(*QUICK, "--mixers=gma,softmax", "--passes=forward,step", "--out", out)
    assert "note: " not in said
    assert (out / "profile.md").read_text().strip() in said
    series = json.loads((out / "profile.json").read_text())
    assert len(series) == 4
    assert "<!doctype html>" in (out / "profile.html").read_text()


def test_nothing_measured_is_a_failure(tmp_path: Path) -> None:
    assert "num_heads must be a divisor" in gma_fails(2, *QUICK, "--heads=3", "--mixers=gma")
    assert "linformer" in gma_fails(2, *QUICK, "--mixers=linformer", "--causal")
    assert "more than 0.1 GB" in gma_fails(
        2, *SMALL, "--mixers=gma", "--tokens=1000000", "--max-memory=0.1")


def test_components_without_gma_are_noted() -> None:
    said = gma_ok(*QUICK, "--mixers=softmax", "--passes=forward")
    assert "note: --components has no effect without gma in --mixers" in said
