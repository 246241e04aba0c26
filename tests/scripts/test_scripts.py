# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The scripts find what they are for, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import check_house
import check_includes
import run_tests

LICENCE = f"// {check_house.LICENCE}\n"


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "include"),
    [
        ("include/gma/view.h", "<fmt/format.h>"),
        ("include/gma/view.h", "<unistd.h>"),
        ("include/gma/view.h", '"common/checks.h"'),
        ("src/reference/forward.cc", '"cpu/cpu.h"'),
        ("src/reference/forward.cc", "<hwy/highway.h>"),
        ("src/dispatch/attention.cc", "<hwy/targets.h>"),
        ("src/cpu/forward.cc", "<torch/torch.h>"),
        ("src/io/file.cc", "<ATen/ATen.h>"),
        ("gma_torch/ops/cpu.cc", '"cpu/cpu.h"'),
        ("gma_torch/include/gma_torch/attention.h", '"ops/dtype.h"'),
        ("apps/gma/train/trainer.cc", '"ops/dtype.h"'),
    ],
)
def test_an_include_across_layers_is_found(tmp_path: Path, name: str, include: str) -> None:
    write(tmp_path, name, f"{LICENCE}#include <vector>\n  #  include {include}\n")
    found = check_includes.violations(tmp_path)
    assert len(found) == 1
    assert found[0].startswith(f"{name}:3: ")
    assert include[1:-1] in found[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/newlayer/a.cc", "#include <vector>\n"),
        ("src/a.cc", "#include <vector>\n"),
        ("gma_torch/python/a.cc", "#include <vector>\n"),
        ("src/cpu/a.cc", "#include HIDDEN\n"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path, name, text)
    assert len(check_includes.violations(tmp_path)) == 1


def test_includes_within_the_layers_pass(tmp_path: Path) -> None:
    write(tmp_path, "include/gma/view.h", "#include <array>\n")
    write(tmp_path, "src/cpu/forward.cc", '#include <hwy/highway.h>\n#include "gma/view.h"\n')
    write(tmp_path, "src/io/file.cc", "#include <sys/stat.h>\n#include <unistd.h>\n")
    write(tmp_path, "gma_torch/ops/cpu.cc", '#include <ATen/ATen.h>\n#include "gma/view.h"\n')
    assert check_includes.violations(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.cc", "int a;\n", "lacks the line"),
        ("tool", "#!/bin/sh\ntrue\n", "lacks the line"),
        ("a.cc", LICENCE + "\n" * check_house.MAX_LINES, "801 lines"),
        ("data.json", " " * (check_house.MAX_BYTES + 1), "larger than"),
        ("model.safetensors", "", "generated"),
    ],
)
def test_a_file_against_the_rules_is_found(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    write(tmp_path, name, text)
    found = check_house.problems(tmp_path / name)
    assert len(found) == 1
    assert expected in found[0]


def test_ignored_files_are_not_looked_at(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    write(tmp_path, ".gitignore", "build/\n")
    write(tmp_path, "build/generated.cc", "int a;\n")
    write(tmp_path, "kept.cc", LICENCE)
    names = {file.name for file in check_house.tracked_files(tmp_path)}
    assert names == {".gitignore", "kept.cc"}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ('tests="5" failures="0" skipped="0" disabled="0"', "5 passed, 0 failed"),
        ('tests="5" failures="2" skipped="1" disabled="1"', "1 passed, 2 failed, 2 skipped"),
    ],
)
def test_the_closing_line_counts_every_test(tmp_path: Path, attributes: str, expected: str) -> None:
    write(tmp_path, "junit.xml", f"<testsuite {attributes}/>")
    assert str(run_tests.Totals.of(tmp_path / "junit.xml")) == expected
