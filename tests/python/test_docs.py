# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Pages and docstrings show code that runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gma_torch

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["docs/migrate.md", "docs/python.md"]
MODULES = sorted(module.name for module in pkgutil.iter_modules(gma_torch.__path__))


def blocks(page: str, language: str) -> list[tuple[int, str]]:
    """Fenced blocks of a language, each with the number of its first line."""
    text = (ROOT / page).read_text()
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


@pytest.mark.parametrize("page", PAGES)
def test_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "page"}
    runnable = blocks(page, "python")
    assert runnable
    for line, source in runnable:
        # Empty lines in front: a traceback then names the line of the page.
        exec(compile("\n" * (line - 1) + source, str(ROOT / page), "exec"), names)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_that_need_a_gpu_are_python(page):
    for _, source in blocks(page, "py"):
        compile(source, page, "exec")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings(name):
    if name == "huggingface":
        pytest.importorskip("transformers", reason="transformers is not installed")
    module = importlib.import_module(f"gma_torch.{name}")
    torch.manual_seed(0)
    names = {"torch": torch, "nn": torch.nn} | vars(gma_torch) | vars(module)
    assert doctest.testmod(module, extraglobs=names).failed == 0


def test_every_public_name_has_a_docstring_with_an_example():
    without = [
        name
        for name in gma_torch.__all__
        if callable(value := getattr(gma_torch, name))
        and not (value.__doc__ or "").strip()
    ]
    assert not without
    for name in ("gaussian_mixture_attention", "gaussian_mixture_attention_step", "responsibilities"):
        assert ">>> " in getattr(gma_torch, name).__doc__


def test_the_reference_builds_without_warnings_and_names_everything(tmp_path):
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0 and "WARNING" not in result.stderr, result.stderr
    page = (tmp_path / "reference" / "python.html").read_text()
    for name in gma_torch.__all__:
        assert name.startswith("__") or f'id="gma_torch.{name}"' in page, name
