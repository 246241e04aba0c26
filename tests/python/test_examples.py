# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The examples run, in less time than they take by default."""

import re
import runpy
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """What main() of an example prints."""
    monkeypatch.chdir(tmp_path)

    def call(name: str, *arguments: object) -> str:
        runpy.run_path(str(FOLDER / name))["main"]([str(argument) for argument in arguments])
        return capsys.readouterr().out

    return call


def test_every_example_is_run_here():
    source = Path(__file__).read_text()
    examples = sorted(FOLDER.glob("*.py"))
    assert len(examples) == 5 and all(f'"{example.name}"' in source for example in examples)


def test_drop_in_layer(run):
    out = run("drop_in_layer.py", "--tokens=300")
    assert "gma: (1, 300, 128) -> (1, 300, 128), gradients of 5" in out


def test_train_lm(run, tmp_path):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    (tmp_path / "text").write_text("The cat saw the dog and the dog saw the cat. " * 50)
    out = run("train_lm.py", "text", "--steps=25", "--out=lm.safetensors")
    first, last = map(float, re.search(r"loss (\S+) -> (\S+),", out).groups())
    assert first > 5 and last < 3
    assert (tmp_path / "lm.safetensors").is_file()
    picture = run("plot_responsibilities.py", "--model=lm.safetensors", "--text=The cat", "--layer=1")
    assert "7 tokens, 16 components" in picture
    assert (tmp_path / "responsibilities.png").read_bytes().startswith(b"\x89PNG")


def test_classify_documents(run):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    out = run("classify_documents.py", "--length=256", "--steps=60")
    assert float(re.search(r"accuracy (\S+)", out)[1]) > 0.8


def test_stream_tokens(run):
    out = run("stream_tokens.py", "--tokens=100000")
    assert "100,000 tokens" in out
    assert float(re.search(r"memory grew by (\S+) MB", out)[1]) < 20


def test_plot_responsibilities(run, tmp_path):
    out = run("plot_responsibilities.py", "--out=picture.png")
    assert "44 tokens" in out and (tmp_path / "picture.png").stat().st_size > 5000
    assert torch.get_num_threads() == 1
