# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Wrong usage ends with one clear line and code 2, failure with one and code 1."""

import random
import resource
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, command, gma_fails, gma_ok
from safetensors import safe_open
from safetensors.numpy import load_file, save_file


@pytest.fixture
def rubbish(tmp_path: Path) -> Path:
    path = tmp_path / "rubbish"
    path.write_bytes(random.Random(1).randbytes(5000))
    return path


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no verb given"),
        (("train",), "expected one of lm, classify, listops, text, wikitext"),
        (("paint",), "paint"),
        (("train", "lm"), "--data is required"),
        (("train", "lm", "--data", "TEXT", "--no-such-flag"), "--no-such-flag"),
        (("train", "lm", "--data", "/none/such"), "/none/such: no such file"),
        (("train", "lm", "--data", "TEXT", "--components=0"), "--components: expected at least 1"),
        (
            ("train", "lm", "--data", "TEXT", "--heads=3", "--hidden-size=16"),
            "--heads 3: expected a divisor of --hidden-size, 16",
        ),
        (("train", "lm", "--data", "TEXT", "--heads=16", "--hidden-size=16"), "--rotary"),
        (("train", "lm", "--data", "TEXT", "--key-value-heads=3"), "--key-value-heads 3"),
        (
            ("train", "lm", "--data", "TEXT", "--tokenizer=bytes", "--tokenizer-model=TEXT"),
            "--tokenizer bytes: expected sentencepiece",
        ),
        (("train", "lm", "--data", "TEXT", "--max-minutes=inf"), "a finite number, got inf"),
        (("train", "lm", "--data", "TEXT", "--steps=many"), "--steps"),
        (("train", "lm", "--data", "TEXT", "--steps=1e3"), "expected a whole number, got '1e3'"),
        (("train", "lm", "--data", "TEXT", "--out", ""), "--out: expected a folder, got an empty"),
        (("train", "lm", "--data", "TEXT", "--out", "o\udcff"), "--out: expected UTF-8, got byte 0xff"),
        (("train", "lm", "--data", "/dev/zero"), "/dev/zero: expected a file, got a device"),
        (("train", "lm", "--data", "TEXT", "--min-lr=1"), "--min-lr 1: expected at most --lr"),
        (("train", "lm", "--data", "TEXT", "--tokenizer-model=TEXT"), "--tokenizer-model "),
        (("train", "listops", "--data", "/none/such"), "--data /none/such: no such folder"),
        (("train", "lm", "--resume", ""), "--resume: got an empty name"),
        (("train", "lm", "--data", "TEXT", "--steps=1.5"), "--steps"),
        (("train", "lm", "--data", "TEXT", "--dropout=1"), "--dropout: expected at least 0 and"),
        (("train", "lm", "--data", "TEXT", "--lr=0"), "--lr: expected more than 0"),
        (("train", "lm", "--data", "TEXT", "--lr=nan"), "--lr"),
        (("train", "lm", "--data", "TEXT", "--mixer=magic"), "--mixer"),
        (("train", "lm", "--data", "TEXT", "--tokenizer=magic"), "--tokenizer"),
        (("train", "lm", "--data", "TEXT", "--config", "/none/such"), "/none/such"),
        (("train", "lm", "--data", "TEXT", "--valid-data", "/none/such"), "/none/such"),
        (("train", "lm", "--resume", "/none/such"), "/none/such"),
        (("train", "lm", "--data", "TEXT", "--out", "/proc/none"), "/proc/none"),
        (("eval",), "checkpoint is required"),
        (("eval", "RUN"), "--data is required"),
        (("eval", "/none/such", "--data", "TEXT"), "/none/such"),
        (("eval", "RUN", "--data", "TEXT", "--batch-size=0"), "--batch-size"),
        (("generate", "RUN", "--greedy", "--top-k=3"), "--greedy"),
        (("generate", "RUN", "--temperature=-1"), "--temperature: expected at least 0"),
        (("generate", "RUN", "--temperature=nan"), "--temperature: expected a finite number"),
        (("generate", "RUN", "--top-p=nan"), "--top-p: expected a finite number"),
        (("generate", "RUN", "--repetition-penalty=nan"), "--repetition-penalty"),
        (("generate", "RUN", "--seed=-1"), "--seed: expected at least 0"),
        (("generate", "RUN", "--seed=99999999999999999999"), "--seed: expected at least 0"),
        (("generate", "RUN", "--threads=100000"), "--threads: expected at least 0 and at most"),
        (("generate", "RUN", "--top-p=1.5"), "--top-p"),
        (("generate", "RUN", "--prompt-file", "/none/such"), "/none/such"),
        (("info", "/none/such"), "/none/such"),
    ],
)
def test_wrong_usage(
    args: tuple[str, ...], message: str, lm_run: Path, text_file: Path, tmp_path: Path
) -> None:
    places = {"TEXT": str(text_file), "RUN": str(lm_run)}
    args = tuple(places.get(arg, arg) for arg in args)
    assert message in gma_fails(2, *args, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps = 3\ndata = [\"a\",\n  \"b\"\n", "run.toml:2: the list is not closed"),
        ("# a comment\nsteps = many\n", "run.toml:2: 'steps': "),
        ("steps = [1, 2]\n", "run.toml:1: 'steps': expected one value, got 2"),
        ("steps = 1\nlr = 1\nsteps = 2\n", "'steps': is given twice"),
        ("[train]\nsteps = 1\n", "got a section"),
        ("checkpoint = x\n", "run.toml:1: 'checkpoint': "),
    ],
)
def test_config_files_are_refused_with_their_line(
    text: str, message: str, text_file: Path, lm_run: Path, tmp_path: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(text)
    verb = ("eval", lm_run) if "checkpoint" in text else ("train", "lm")
    assert message in gma_fails(2, *verb, "--data", text_file, "--config", config, cwd=tmp_path)


def test_unusable_data(tmp_path: Path, rubbish: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    out = ("--out", tmp_path / "run", *TINY)
    assert "empty: the file is empty" in gma_fails(2, "train", "lm", "--data", empty, *out)
    assert "rubbish: not a text file" in gma_fails(2, "train", "lm", "--data", rubbish, *out)
    (tmp_path / "folder").mkdir()
    assert "no text files" in gma_fails(2, "train", "lm", "--data", tmp_path / "folder", *out)


def test_rubbish_is_no_tokenizer(tmp_path: Path, rubbish: Path, text_file: Path) -> None:
    for file in (rubbish, text_file):
        message = gma_fails(
            *(2, "train", "lm", "--data", text_file, "--out", tmp_path / "run"),
            *("--tokenizer-model", file),
        )
        assert "not a SentencePiece model" in message


@pytest.mark.parametrize("line", ["5\tout of range", "-1\tnegative", "x\tno number", "no tab", "1\t"])
def test_wrong_labels_name_the_line(line: str, tmp_path: Path) -> None:
    file = tmp_path / "texts.tsv"
    file.write_text(f"0\tgood\n{line}\n1\tgood\n")
    message = gma_fails(
        *(2, "train", "classify", "--data", file, "--num-classes=2", "--out", tmp_path / "run"),
    )
    assert "texts.tsv:2: " in message


def test_labels_without_lines_are_refused(tmp_path: Path, classify_run: Path) -> None:
    file = tmp_path / "blank.tsv"
    file.write_text("\n\n")
    assert "found none in" in gma_fails(2, "eval", classify_run, "--data", file)


def test_learned_positions_bound_what_is_read(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--learned-positions")
    assert len(gma_ok("generate", run, "--prompt=line", "--greedy")) == 32 - 4 + 1
    for verb in (
        ("generate", run, "--prompt=line", "--max-tokens=30"),
        ("eval", run, "--data", text_file, "--context=33"),
    ):
        assert "at most 32 tokens" in gma_fails(2, *verb)


def test_rubbish_is_no_checkpoint(tmp_path: Path, rubbish: Path, lm_run: Path) -> None:
    sound = (lm_run / "best.safetensors").read_bytes()
    empty = tmp_path / "empty"
    empty.touch()
    truncated = tmp_path / "truncated"
    truncated.write_bytes(sound[:-100])
    huge_header = tmp_path / "huge"
    huge_header.write_bytes(struct.pack("<Q", 1 << 60) + sound[8:])
    foreign = tmp_path / "foreign"
    save_file({"x": np.zeros(3, np.float32)}, foreign)
    for file in (rubbish, empty, truncated, huge_header, foreign, tmp_path):
        for verb in (["info"], ["generate"], ["train", "lm", "--resume"]):
            assert str(file) in gma_fails(2, *verb, file)


def test_a_damaged_checkpoint_never_crashes(tmp_path: Path, lm_run: Path) -> None:
    sound = (lm_run / "best.safetensors").read_bytes()
    header = 8 + struct.unpack("<Q", sound[:8])[0]
    source = random.Random(2)
    damaged = tmp_path / "damaged"
    for _ in range(25):
        bytes_ = bytearray(sound)
        for _ in range(source.randrange(1, 4)):
            bytes_[source.randrange(header)] = source.randrange(256)
        damaged.write_bytes(bytes_)
        result = subprocess.run(
            command("info", damaged), capture_output=True, text=True, errors="replace"
        )
        assert result.returncode in (0, 1, 2), result.stderr
        assert len(result.stderr.splitlines()) == (result.returncode != 0)


def test_damage_among_the_weights_is_found(tmp_path: Path, lm_run: Path) -> None:
    bytes_ = bytearray((lm_run / "best.safetensors").read_bytes())
    bytes_[-100] ^= 1
    damaged = tmp_path / "damaged"
    damaged.write_bytes(bytes_)
    for verb in (("info", damaged), ("generate", damaged), ("train", "lm", "--resume", damaged)):
        assert "damaged: the tensor data has the CRC-32" in gma_fails(2, *verb)


def test_weights_must_fit_the_config(tmp_path: Path, lm_run: Path) -> None:
    tensors = load_file(lm_run / "best.safetensors")
    with safe_open(lm_run / "best.safetensors", "np") as file:
        metadata = file.metadata()
    metadata.pop("crc32")
    metadata.pop("gma_version")
    name = next(name for name in tensors if name.startswith("model."))
    whole = tmp_path / "whole"
    save_file(tensors, whole, metadata)
    said = gma_ok("info", whole)
    assert "parameters" in said and "unknown" in said, "other programs may write checkpoints"
    tensors.pop(name)
    less = tmp_path / "less"
    save_file(tensors, less, metadata)
    message = gma_fails(2, "info", less)
    assert str(less) in message and name.removeprefix("model.") in message


def test_a_full_disk_is_a_failure(tmp_path: Path, text_file: Path, lm_run: Path) -> None:
    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    run = tmp_path / "run"
    message = gma_fails(
        *(1, "train", "lm", "--data", text_file, "--out", run, *TINY),
        preexec_fn=limit_file_size,
    )
    assert "last.safetensors" in message
    assert not (run / "last.safetensors").exists()
    assert [file.name for file in run.iterdir() if file.name.endswith(".tmp")] == []

    with open("/dev/full", "w") as full:
        for args in (("generate", lm_run, "--prompt=x"), ("info", lm_run)):
            result = subprocess.run(
                command(*args), stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
            )
            assert result.returncode == 1
            assert result.stderr.startswith(b"gma: error: cannot write to ")
            assert result.stderr.count(b"\n") == 1
