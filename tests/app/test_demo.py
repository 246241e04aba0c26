# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""scripts/demo, with a stand-in for the program that notes how it is called."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "demo"

STAND_IN = """#!/usr/bin/env bash
printf '%s|' "$@" >>calls
echo >>calls
if [[ "$1" == train ]]; then
  [[ -z "${STOP:-}" ]] || exit 130
  touch runs/demo/last.safetensors
  echo '{"kind":"final"}' >>runs/demo/log.jsonl
fi
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("scripts", "build", "examples", "my notes"):
        (tmp_path / name).mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts" / "demo")
    (tmp_path / "examples" / "demo.toml").write_text("steps = 1\n")
    (tmp_path / "my notes" / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    program = tmp_path / "build" / "gma"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return tmp_path


def demo(project: Path, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    (project / "calls").unlink(missing_ok=True)
    result = subprocess.run(
        [project / "scripts" / "demo"], env=os.environ | variables, capture_output=True, text=True
    )
    calls = project / "calls"
    return result, calls.read_text().splitlines() if calls.exists() else []


def test_it_trains_once_and_ends_with_the_summary(project: Path) -> None:
    result, calls = demo(project, DATA="my notes")
    assert result.returncode == 0, result.stderr
    assert calls[0] == "train|lm|--config|examples/demo.toml|--data|my notes|--out|runs/demo|"
    assert calls[-1] == "train|lm|--resume|runs/demo|"
    assert [call.split("|")[0] for call in calls] == ["train", "generate", "train"]
    _, again = demo(project, DATA="my notes")
    assert again == calls[1:]
    _, other = demo(project, DATA="'my notes' b.txt", UNSEEN="b.txt")
    assert "|--data|my notes|b.txt|" in other[0]
    assert other[1] == "eval|runs/demo|--data|b.txt|"


def test_a_folder_that_is_not_its_own_stays(project: Path) -> None:
    (project / "runs" / "demo").mkdir(parents=True)
    (project / "runs" / "demo" / "last.safetensors").write_text("precious")
    result, calls = demo(project, DATA="b.txt")
    assert result.returncode == 1 and "please move it away" in result.stderr and calls == []
    assert (project / "runs" / "demo" / "last.safetensors").read_text() == "precious"


def test_an_interrupt_is_not_silent(project: Path) -> None:
    result, calls = demo(project, DATA="b.txt", STOP="1")
    assert result.returncode == 130 and "make demo" in result.stdout and len(calls) == 1
