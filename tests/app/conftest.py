# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Runs the program as a user does."""

import json
import os
import subprocess
from pathlib import Path

import pytest

# Models this small gain nothing from threads, and lose much where other tests want the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

BINARY = Path(os.environ.get("GMA_BINARY", Path(__file__).parents[2] / "build" / "gma"))

TINY = (
    "--layers=1 --hidden-size=16 --heads=2 --components=4 --context=32 --batch-size=4 "
    "--steps=20 --warmup=2 --valid-every=10 --save-every=5 --log-every=5 --lr=0.01 --threads=1"
).split()
# Smaller than any preset.
QUICK = (
    "--preset=nano --layers=1 --hidden-size=16 --heads=2 --components=4 --parameters=0 "
    "--batch-size=4 --steps=6 --warmup=2 --valid-every=3 --save-every=3 --log-every=1 --threads=1"
).split()


def command(*args: object) -> list[str]:
    return [str(BINARY), *map(str, args)]


def gma(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs gma with its input closed, unless told otherwise."""
    options = {"stdin": subprocess.DEVNULL, "timeout": 300} | options
    return subprocess.run(command(*args), capture_output=True, text=True, **options)


def gma_ok(*args: object, **options: object) -> str:
    result = gma(*args, **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def gma_fails(code: int, *args: object, **options: object) -> str:
    """The one line that a failure prints."""
    result = gma(*args, **options)
    assert result.returncode == code, result.stdout + result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("gma: error: ")
    return lines[0].removeprefix("gma: error: ")


def log_records(folder: Path, kind: str) -> list[dict]:
    records = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return [record for record in records if record["kind"] == kind]


def final(run: Path) -> dict:
    (record,) = log_records(run, "final")
    return record


@pytest.fixture(scope="session")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"line {i * i % 97} of a small text, it says\n" for i in range(400)))
    return path


@pytest.fixture(scope="session")
def lm_run(tmp_path_factory: pytest.TempPathFactory, text_file: Path) -> Path:
    """The folder of a finished run of a language model."""
    out = tmp_path_factory.mktemp("runs") / "lm"
    gma_ok("train", "lm", "--data", text_file, "--out", out, *TINY)
    return out


@pytest.fixture(scope="session")
def labelled_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "texts.tsv"
    words = ["dull and long", "great fun"]
    path.write_text("".join(f"{i % 2}\t{words[i % 2]} {i}\n" for i in range(200)))
    return path


@pytest.fixture(scope="session")
def classify_run(tmp_path_factory: pytest.TempPathFactory, labelled_file: Path) -> Path:
    out = tmp_path_factory.mktemp("runs") / "classify"
    gma_ok("train", "classify", "--data", labelled_file, "--out", out, *TINY, "--steps=40")
    return out


@pytest.fixture(scope="session")
def listops(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "listops"
    gma_ok("data", "listops", "--out", out, "--train=60", "--val=20", "--test=20",
           "--min-length=10", "--max-length=60")
    return out


@pytest.fixture(scope="session")
def imdb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imdb")
    words = ["dull and long", "great fun"]
    for part in ("train", "test"):
        (out / f"{part}.tsv").write_text("".join(f"{i % 2}\t{words[i % 2]} {i}\n" for i in range(80)))
    return out


@pytest.fixture(scope="session")
def wikitext(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wikitext")
    lines = [" \n = Title = \n", " The <unk> fox of line {} jumps over the dog . \n"]
    for part, count in (("train", 300), ("valid", 40), ("test", 40)):
        text = "".join(lines[i % 2].format(i % 7) for i in range(count))
        (out / f"wiki.{part}.tokens").write_text(text)
    return out
