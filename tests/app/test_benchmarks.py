# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma train listops, text and wikitext; gma compare and gma report."""

import json
import os
import re
import signal
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import command, gma_fails, gma_ok, log_records

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

# Smaller than any preset.
QUICK = (
    "--preset=nano --layers=1 --hidden-size=16 --heads=2 --components=4 --parameters=0 "
    "--batch-size=4 --steps=6 --warmup=2 --valid-every=3 --save-every=3 --log-every=1 --threads=1"
).split()


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


def final(run: Path) -> dict:
    (record,) = log_records(run, "final")
    return record


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


class Scripts(HTMLParser):
    """The JSON of a page, and what it would load from elsewhere."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.data = ""
        self.loads: list[str] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag == "script" and ("id", "data") in attrs
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def test_a_comparison_makes_table_numbers_and_page(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    arguments = ("compare", "--task=listops", "--data", listops, "--mixers=gma,softmax",
                 "--preset=nano", "--seeds=2", "--out", out, "--", *QUICK[1:])
    said = gma_ok(*arguments)
    assert said.count("== Run ") == 4
    table = (out / "compare.md").read_text()
    assert "| gma | " in table and "| softmax | " in table and "(2)" in table
    assert "| no model: root operator | " in table
    numbers = json.loads((out / "compare.json").read_text())
    assert [row["variant"] for row in numbers["rows"]] == ["gma", "softmax"]
    accuracies = [final(out / f"gma-{seed}")["test"]["accuracy"] for seed in (1, 2)]
    assert numbers["rows"][0]["test_accuracy"]["mean"] == pytest.approx(sum(accuracies) / 2)
    page = Scripts((out / "compare.html").read_text())
    assert page.loads == []
    assert [run["name"] for run in json.loads(page.data)["runs"]] == [
        "gma-1", "softmax-1", "gma-2", "softmax-2"]
    # Nothing is left to do the second time, on any number of threads.
    assert gma_ok(*arguments, "--threads=2").count("== Run ") == 0
    # A table never shows runs of other options than were asked for.
    for option, value in (("--no-use-short-conv", "false"), ("--steps=7", "7")):
        message = gma_fails(2, *arguments, option)
        name = option.removeprefix("--no-").removeprefix("--").partition("=")[0]
        assert message.startswith(f"--out {out}: its run gma-1 has --{name} ")
        assert f"asks for {value}: another --out keeps both" in message


def test_an_interrupted_comparison_goes_on(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    arguments = ("compare", "--task=listops", "--data", listops, "--mixers=gma,softmax",
                 "--preset=nano", "--out", out, "--", *QUICK[1:], "--steps=2000",
                 "--valid-every=2000")
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True)
    log = out / "gma-1" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"step":3' in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "The same command goes on from here." in said
    assert not (out / "softmax-1").exists()
    step = log_records(out / "gma-1", "train")[-1]["step"]
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True)
    while f'"step":{step + 3}' not in log.read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    said, _ = process.communicate(timeout=120)
    assert f"Resuming at step {step}" in said


def test_a_killed_comparison_takes_its_run_along(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    process = subprocess.Popen(
        command("compare", "--task=listops", "--data", listops, "--mixers=gma", "--preset=nano",
                "--out", out, "--", *QUICK[1:], "--steps=20000", "--valid-every=20000"),
        stdout=subprocess.PIPE, text=True)
    log = out / "gma-1" / "log.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"step":3' in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.kill()
    # The run holds the other end of this pipe: it is read to its end when that run has ended.
    said, _ = process.communicate(timeout=60)
    assert "all is saved" in said


def test_variants_are_any_options(listops: Path, tmp_path: Path) -> None:
    variants = tmp_path / "variants.toml"
    variants.write_text('[k=4]\ncomponents = 4  # few\n\n[spherical]\nmixer = "gma"\n'
                        'covariance-type = "spherical"\nuse-short-conv = false\n')
    out = tmp_path / "comparison"
    gma_ok("compare", "--task=listops", "--data", listops, "--variants", variants,
           "--preset=nano", "--out", out, "--", *QUICK[1:])
    assert "| k=4 | " in (out / "compare.md").read_text()
    options = [log_records(out / name, "config")[0]["options"] for name in ("k=4-1", "spherical-1")]
    assert options[0]["components"] == 4 and options[0]["covariance-type"] == "diag"
    assert options[1]["covariance-type"] == "spherical" and not options[1]["use-short-conv"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("components = 4\n", "expected options in [sections]"),
     ("[a]\n[b]\n[a]\n", "'a': is there twice"),
     ("[../a]\n", "letters, digits"),
     ("[a]\ncomponent = 4\n", "'a.component': unknown option"),
     ("[a]\ncomponents = 0\n", "'a.components': "),
     ("[a]\nseed = 2\n", "gma compare gives this option itself"),
     ("[a]\nmixer = lstm\n", "'a.mixer': "),
     ("# nothing\n", "expected [sections], got none")])
def test_a_wrong_variant_is_refused_at_once(listops: Path, tmp_path: Path, text: str,
                                            says: str) -> None:
    variants = tmp_path / "variants.toml"
    variants.write_text(text)
    said = gma_fails(2, "compare", "--task=listops", "--data", listops, "--variants", variants,
                     "--out", tmp_path / "out")
    assert says in said and str(variants) in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("variants", sorted(BENCHMARKS.glob("*.toml")), ids=lambda file: file.stem)
def test_the_variants_of_the_repository_are_accepted(wikitext: Path, tmp_path: Path,
                                                     variants: Path) -> None:
    # --out is looked at when all variants are known to be right.
    out = tmp_path / "file"
    out.touch()
    assert "expected a folder, got a file" in gma_fails(
        2, "compare", "--task=wikitext", "--data", wikitext, "--variants", variants, "--out", out)


def test_compare_refuses_what_cannot_be_compared(listops: Path, tmp_path: Path) -> None:
    options = ("--out", tmp_path / "out")
    assert "--task is required" in gma_fails(2, "compare", "--data", listops, *options)
    assert "given twice" in gma_fails(
        2, "compare", "--task=listops", "--data", listops, "--mixers=gma,gma", *options)
    assert "gma data listops" in gma_fails(
        2, "compare", "--task=listops", "--data", tmp_path, *options)
    for words, says in (
            (("--seed", "5"), "--seed after --: gma compare gives this option itself"),
            (("--out=x",), "--out after --: gma compare gives this option itself"),
            (("--stepz=5",), "gma: The following argument was not expected: --stepz=5"),
            (("--steps=0",), "gma: --steps: ")):
        assert gma_fails(2, "compare", "--task=listops", "--data", listops, *options, "--",
                         *words).startswith(says)
    assert gma_fails(2, "compare", "--task=listops", "--data", listops, "--mixers=softmax,mamba",
                     *options, "--", "--attention-dropout=0.5").startswith(
        "mamba: --attention-dropout 0.5: expected 0 with --mixer mamba")
    assert not (tmp_path / "out").exists()


def test_a_report_shows_runs_that_still_go_on(lm_run: Path, tmp_path: Path) -> None:
    going = tmp_path / "<b>going"
    going.mkdir()
    lines = (lm_run / "log.jsonl").read_text().splitlines()
    going.joinpath("log.jsonl").write_text("\n".join(lines[:5]) + '\n{"kind":"train","st')
    page_file = tmp_path / "page.html"
    gma_ok("report", lm_run, going, "--out", page_file)
    page = Scripts(page_file.read_text())
    runs = json.loads(page.data)["runs"]
    assert [run["final"] is None for run in runs] == [False, True]
    assert runs[1]["name"] == "<b>going"
    assert "<b>going" not in page_file.read_text()
    message = gma_fails(2, "report", tmp_path, "--out", page_file)
    assert message.startswith(f"{tmp_path}: expected the folder of a training run")
