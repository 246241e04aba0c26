# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The package as a package: types, version, and an import that ends in one clear line."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import gma_torch
from gma_torch._library import load_library
from gma_torch._version import WHEELS_TORCH

ROOT = Path(__file__).resolve().parents[2]


def last_line_of_failure(code: str, **environment: str) -> str:
    """The last line on stderr of a failing program."""
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1, result.stderr
    return result.stderr.strip().splitlines()[-1]


def test_import_with_another_torch_ends_in_one_line():
    line = last_line_of_failure("import torch; torch.__version__ = '2.14.1+cpu'; import gma_torch")
    assert re.match(
        r"ImportError: gma_torch: .*\.so was built for torch 2\.13.*, but this is torch 2\.14\.1", line
    )


def test_repaired_versions_of_the_same_torch_fit(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.13.9+cu130")
    load_library()
    monkeypatch.setattr(torch, "__version__", "2.1.3")
    with pytest.raises(ImportError, match="was built for torch 2.13.*, but this is torch 2.1.3"):
        load_library()


def test_huggingface_without_transformers_ends_in_one_line():
    code = "import sys; sys.modules['transformers'] = None; import gma_torch.huggingface"
    assert last_line_of_failure(code).startswith(
        "ImportError: gma_torch.huggingface needs transformers 5.24 or newer: pip install"
    )


def test_checkpoints_without_safetensors_end_in_one_line(tmp_path):
    code = (
        "import sys, gma_torch; sys.modules['safetensors'] = None; "
        f"gma_torch.load_checkpoint({str(tmp_path)!r} + '/model')"
    )
    (tmp_path / "model").touch()
    assert last_line_of_failure(code).startswith(
        "ImportError: gma_torch: checkpoints need the package safetensors"
    )


def test_there_is_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cmake = re.search(r"project\(gma VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert gma_torch.__version__ == project["version"] == cmake[1]
    assert project["dependencies"] == [f"torch=={WHEELS_TORCH}.*"]


@pytest.mark.slow
def test_types_hold():
    pytest.importorskip("mypy", reason="mypy is not installed")
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", os.devnull],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_callers_see_the_types(tmp_path):
    """py.typed: what a caller gets wrong is found, and what it gets right is not."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    caller = tmp_path / "caller.py"
    caller.write_text(
        "import gma_torch\n"
        "module = gma_torch.GaussianMixtureAttention(16, 4, is_causal=True)\n"
        "state: gma_torch.MixerState = module.initial_state(2)\n"
        "gma_torch.GaussianMixtureAttention(16, 4, num_component=3)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(caller)],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "python" / "src")},
        capture_output=True,
        text=True,
    )
    errors = [line for line in result.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1 and 'Unexpected keyword argument "num_component"' in errors[0], result
