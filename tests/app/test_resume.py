# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma train --resume where log or data are not what they were."""

from pathlib import Path

from conftest import TINY, gma_fails, gma_ok, log_records


def train(text_file: Path, run: Path) -> None:
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--steps=10")


def test_a_lost_log_begins_anew(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    train(text_file, run)
    (run / "log.jsonl").unlink()
    gma_ok("train", "lm", "--resume", run, "--steps=20")
    (config,) = log_records(run, "config")
    assert config["options"]["steps"] == 20
    gma_ok("report", run, "--out", tmp_path / "page.html")


def test_the_record_of_an_ended_run_is_a_run(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    train(text_file, run)
    for checkpoint in run.glob("*.safetensors"):
        checkpoint.unlink()
    log = (run / "log.jsonl").read_bytes()
    arguments = ("train", "lm", "--data", text_file, "--out", run, *TINY)
    assert "the folder holds a run already" in gma_fails(2, *arguments)
    assert (run / "log.jsonl").read_bytes() == log


def test_other_data_decides_anew_which_model_is_best(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    train(text_file, run)
    other = tmp_path / "other.txt"
    other.write_text("".join(f"{i * 7919 % 1000003} unlike\n" for i in range(1000)))
    said = gma_ok("train", "lm", "--resume", run, "--data", other, "--steps=20")
    assert "the next validation decides anew" in said
    assert log_records(run, "final")[0]["best_step"] == 20


def test_a_damaged_log_is_named(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    train(text_file, run)
    with (run / "log.jsonl").open("a") as log:
        log.write('{"kind":"train","step":"x"}\n')
    message = gma_fails(2, "train", "lm", "--resume", run, "--steps=20")
    assert str(run / "log.jsonl") in message and "'step' must be a whole number" in message
