# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma train listops, text and wikitext."""

import json
import re
from pathlib import Path

import pytest
from conftest import QUICK, final, gma_fails, gma_ok, log_records


def test_listops_is_trained_tested_and_set_beside_shortcuts(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = gma_ok("train", "listops", "--data", listops, "--out", out, *QUICK)
    assert "10 classes, tokenizer listops, vocabulary 17" in said
    record = final(out)
    assert 0 <= record["test"]["accuracy"] <= 1
    assert set(record["baselines"]) == {"majority", "root_operator", "root_digits"}
    assert "No model:   majority " in said
    # The best model, on the same file, by another verb.
    evaluation = json.loads(gma_ok("eval", out, "--data", listops / "basic_test.tsv", "--json"))
    assert evaluation["accuracy"] == record["test"]["accuracy"]
    assert evaluation["texts"] == 20


def test_text_holds_a_part_of_train_out_and_tests_on_test(imdb: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = gma_ok("train", "text", "--data", imdb, "--out", out, *QUICK)
    assert "72 texts to train on, 8 held out, 2 classes, tokenizer bytes" in said
    assert final(out)["baselines"] == {"majority": 0.5}
    assert "accuracy" in final(out)["test"]


@pytest.mark.parametrize("tokenizer", ["words", "sentencepiece"])
def test_wikitext_reports_perplexity_per_word(wikitext: Path, tmp_path: Path, tokenizer: str) -> None:
    out = tmp_path / "run"
    gma_ok("train", "wikitext", "--data", wikitext, "--out", out, *QUICK, "--tokenizer", tokenizer,
           "--vocab-size=300")
    record = final(out)
    test = record["test"]
    assert test["word_perplexity"] > 1 and test["bits_per_byte"] > 0
    evaluation = json.loads(gma_ok("eval", out, "--data", wikitext / "wiki.test.tokens", "--json"))
    assert evaluation["word_perplexity"] == pytest.approx(test["word_perplexity"], rel=1e-6)
    assert evaluation["bits_per_byte"] == pytest.approx(test["bits_per_byte"], rel=1e-6)
    assert len(gma_ok("generate", out, "--prompt", " The fox", "--max-tokens=5")) > 0


def test_a_benchmark_resumes_with_the_options_of_its_run(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    gma_ok("train", "listops", "--data", listops, "--out", out, *QUICK)
    gma_ok("train", "listops", "--resume", out, "--steps=9")
    (config,) = log_records(out, "config")
    assert config["options"]["hidden-size"] == 16
    assert final(out)["step"] == 9
    message = gma_fails(2, "train", "listops", "--resume", out, "--preset=small")
    assert message.startswith("--preset")


def test_parameters_set_the_width_inside_the_mlp(listops: Path, tmp_path: Path) -> None:
    counts = {}
    for mixer in ("gma", "softmax"):
        out = tmp_path / mixer
        gma_ok("train", "listops", "--data", listops, "--out", out, *QUICK, "--parameters=5000",
               "--mixer", mixer)
        (config,) = log_records(out, "config")
        counts[mixer] = config["parameters"]
        assert counts[mixer] == pytest.approx(5000, rel=0.01)
    message = gma_fails(2, "train", "listops", "--data", listops, *QUICK, "--parameters=100",
                        "--out", tmp_path / "none")
    assert message.startswith("--parameters 100: the model has at least ")
    message = gma_fails(2, "train", "listops", "--data", listops, *QUICK, "--parameters=5000",
                        "--mlp-size=8", "--out", tmp_path / "none")
    assert message.startswith("--parameters 5000: expected no --mlp-size")


def test_data_that_is_not_there_is_named_with_the_command_that_makes_it(tmp_path: Path) -> None:
    message = gma_fails(2, "train", "listops", "--data", tmp_path, *QUICK)
    assert message == (f"--data {tmp_path}: expected basic_train.tsv in it; "
                       f"`gma data listops --out {tmp_path}` makes it")
    assert "{small,nano,paper}" in gma_fails(
        2, "train", "listops", "--data", tmp_path, "--preset=large")


@pytest.mark.parametrize("preset", ["nano", "small", "paper"])
@pytest.mark.parametrize("task", ["listops", "text"])
def test_linformer_has_room_for_an_mlp(listops: Path, imdb: Path, tmp_path: Path, task: str,
                                       preset: str) -> None:
    data = {"listops": listops, "text": imdb}[task]
    widths = {}
    for mixer in ("gma", "linformer"):
        said = gma_ok("train", task, "--data", data, "--preset", preset, "--mixer", mixer,
                      "--out", tmp_path / mixer, "--steps=1", "--warmup=0", "--batch-size=2",
                      "--no-test", "--threads=1")
        widths[mixer] = int(re.search(r"(\d+) inside the MLP", said).group(1))
    # Its projections, as long as a text, are paid for with width.
    assert widths["linformer"] >= widths["gma"] / 3


def test_runs_that_choose_options_need_not_test(listops: Path, tmp_path: Path) -> None:
    gma_ok("train", "listops", "--data", listops, "--out", tmp_path / "run", *QUICK, "--no-test")
    assert "test" not in final(tmp_path / "run")
    assert "accuracy" in final(tmp_path / "run")


def test_means_can_start_from_data(listops: Path, tmp_path: Path) -> None:
    losses = []
    for means in ("normal", "data"):
        gma_ok("train", "listops", "--data", listops, "--out", tmp_path / means, *QUICK,
               "--initial-means", means)
        losses.append([record["loss"] for record in log_records(tmp_path / means, "train")])
    assert losses[0] != losses[1]


def test_notes_are_of_options_that_were_given(listops: Path, tmp_path: Path) -> None:
    arguments = ("train", "listops", "--data", listops, "--mixer=softmax", "--preset=nano",
                 "--steps=1", "--no-test", "--threads=1", "--out")
    assert "note: --" not in gma_ok(*arguments, tmp_path / "a")
    said = gma_ok(*arguments, tmp_path / "b", "--components=4", "--tie-embeddings")
    assert "note: --components has no effect with --mixer softmax" in said
    assert "note: --tie-embeddings has no effect with a classifier" in said
