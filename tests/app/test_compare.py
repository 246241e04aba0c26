# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma compare and gma report."""

import json
import os
import shutil
import signal
import subprocess
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import QUICK, command, final, gma_fails, gma_ok, log_records

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


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


@pytest.mark.parametrize("mixers", [("--mixers", "gma,linear"), ("--mixers=gma,linear",)])
def test_options_of_training_stand_behind_two_dashes(listops: Path, tmp_path: Path,
                                                     mixers: tuple[str, ...]) -> None:
    out = tmp_path / "comparison"
    gma_ok("compare", "--task=listops", "--data", listops, "--preset=nano", "--out", out, *mixers,
           "--", *QUICK[1:])
    for mixer in ("gma", "linear"):
        (config,) = log_records(out / f"{mixer}-1", "config")
        assert config["options"]["mixer"] == mixer and config["options"]["steps"] == 6


def test_a_table_without_test_figures_is_one_of_the_task(listops: Path, tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    gma_ok("compare", "--task=listops", "--data", listops, "--mixers=gma", "--preset=nano",
           "--out", out, "--", *QUICK[1:], "--no-test")
    lines = [line for line in (out / "compare.md").read_text().splitlines() if line[:1] == "|"]
    assert "test accuracy, %" in lines[0] and lines[2].startswith("| gma | - |")
    assert {line.count("|") for line in lines} == {8}


def test_ended_runs_on_older_data_are_noted(listops: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(listops, data)
    arguments = ("compare", "--task=listops", "--data", data, "--mixers=gma", "--preset=nano",
                 "--out", tmp_path / "out", "--", *QUICK[1:])
    assert "note: " not in gma_ok(*arguments)
    (data / "basic_test.tsv").touch()
    assert f"note: {data / 'basic_test.tsv'} is newer than the run " in gma_ok(*arguments)


def test_a_report_replaces_nothing_but_a_report(lm_run: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes((lm_run / "log.jsonl").read_bytes())
    message = gma_fails(2, "report", lm_run, "--out", log)
    assert message.startswith(f"--out {log}: expected a new file or an earlier page")
    assert log.read_bytes() == (lm_run / "log.jsonl").read_bytes()
    for _ in range(2):
        gma_ok("report", lm_run, "--out", tmp_path / "page.html")


@pytest.mark.parametrize(
    ("line", "says"),
    [('{"kind":7}', "'kind' must be text, got 7"),
     ('{"kind":"train","step":"x"}', "'step' must be a whole number, got \"x\""),
     ('{"kind":"final","loss":"low"}', "'loss' must be a number, got \"low\""),
     ('{"kind":"config","options":3}', "'options' must be an object, got 3")])
def test_a_log_of_other_types_is_refused_with_its_line(tmp_path: Path, line: str,
                                                       says: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind":"config","options":{},"parameters":1}\n' + line + "\n")
    assert gma_fails(2, "report", tmp_path, "--out", tmp_path / "page.html") == f"{log}:2: {says}"
