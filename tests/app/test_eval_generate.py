# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma eval, gma generate, gma info."""

import json
import math
import subprocess
from pathlib import Path

import pytest
from conftest import command, gma, gma_fails, gma_ok


def test_batch_size_has_no_say(lm_run: Path, text_file: Path) -> None:
    figures = [
        json.loads(gma_ok("eval", lm_run, "--data", text_file, "--json", f"--batch-size={size}"))
        for size in (1, 16)
    ]
    for name in ("loss", "perplexity", "bits_per_byte", "word_perplexity"):
        assert math.isclose(figures[0][name], figures[1][name], rel_tol=1e-5)
    one = figures[0]
    assert one["tokens"] == len(text_file.read_bytes()) - 1
    assert math.isclose(one["perplexity"], math.exp(one["loss"]))
    assert math.isclose(one["bits_per_byte"], one["loss"] / math.log(2))
    assert (one["context"], one["stride"]) == (32, 32)


def test_a_stride_gives_more_context(lm_run: Path, text_file: Path) -> None:
    out = gma_ok("eval", lm_run, "--data", text_file, "--context=64", "--stride=16")
    assert "64, 16 tokens" in out
    for words in ("perplexity", "bits per byte", "a word", "tokenizer"):
        assert words in out
    message = gma_fails(2, "eval", lm_run, "--data", text_file, "--context=8", "--stride=9")
    assert "--stride 9" in message


def test_generation_is_reproducible(lm_run: Path) -> None:
    def text(*options: str) -> str:
        return gma_ok("generate", lm_run, "--prompt=line ", "--max-tokens=40", *options)

    assert text("--seed=1") == text("--seed=1")
    assert text("--seed=1") != text("--seed=2")
    greedy = text("--greedy")
    assert greedy == text("--top-k=1") == text("--top-p=1e-6") == text("--temperature=0.001")
    assert greedy == text("--temperature=0")
    assert text("--greedy", "--repetition-penalty=5") != greedy
    assert text("--greedy", "--echo") == "line " + greedy


def test_stop_text_ends_the_text(lm_run: Path) -> None:
    text = gma_ok("generate", lm_run, "--prompt=x", "--greedy", "--max-tokens=60")
    stop = text[20:23]
    cut = gma_ok("generate", lm_run, "--prompt=x", "--greedy", "--max-tokens=60", "--stop", stop)
    assert cut == text[: text.index(stop)]


def test_prompts_from_flag_file_and_input(lm_run: Path, tmp_path: Path) -> None:
    options = ("--greedy", "--max-tokens=30")
    (tmp_path / "prompt").write_text("some line")
    wanted = gma_ok("generate", lm_run, "--prompt", "some line", *options)
    assert gma_ok("generate", lm_run, "--prompt-file", tmp_path / "prompt", *options) == wanted
    piped = subprocess.run(
        command("generate", lm_run, *options), input="some line", capture_output=True, text=True
    )
    assert piped.stdout == wanted
    assert gma_ok("generate", lm_run, *options), "nothing to continue is a text that begins"


def test_output_is_utf8_whatever_the_bytes(lm_run: Path) -> None:
    for seed in range(3):
        result = subprocess.run(
            command("generate", lm_run, "--prompt=\xe9", "--temperature=100", f"--seed={seed}"),
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        assert result.returncode == 0
        assert "\ufffd" in result.stdout.decode("utf-8"), "bytes at random are seldom UTF-8"


def test_text_comes_as_it_is_made(lm_run: Path) -> None:
    process = subprocess.Popen(
        command("generate", lm_run, "--prompt=x", "--max-tokens=100000000"), stdout=subprocess.PIPE
    )
    assert len(process.stdout.read(64)) == 64
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_info(lm_run: Path, classify_run: Path) -> None:
    program = json.loads(gma_ok("info", "--json"))
    assert program["gma"] in gma_ok("--version")
    assert program["instruction_set"] and program["threads"] >= 1
    assert "gma" in program["mixers"] and program["torch"].startswith("2.")
    checkpoint = json.loads(gma_ok("info", lm_run, "--json"))["checkpoint"]
    assert checkpoint["task"] == "lm" and not checkpoint["resumable"]
    assert checkpoint["progress"]["best"]["loss"] > 0
    last = json.loads(gma_ok("info", lm_run / "last.safetensors", "--json"))["checkpoint"]
    assert last["resumable"] and last["progress"]["step"] == 20
    assert last["parameters"] == checkpoint["parameters"] > 256 * 16
    text = gma_ok("info", classify_run)
    assert "classify" in text and "model_config.num_classes" in text


def test_a_task_has_its_verbs(classify_run: Path, text_file: Path) -> None:
    assert "holds a model for 'classify'" in gma_fails(2, "generate", classify_run)
    assert "text.txt:1" in gma_fails(2, "eval", classify_run, "--data", text_file)


def test_config_files_serve_every_verb(lm_run: Path, text_file: Path, tmp_path: Path) -> None:
    config = tmp_path / "eval.ini"
    config.write_text(f"data = {text_file}\ncontext = 16\njson = true\n")
    assert json.loads(gma_ok("eval", lm_run, "--config", config))["context"] == 16


@pytest.mark.parametrize("verb", [(), ("train",), ("train", "lm"), ("train", "classify"), ("eval",)])
def test_help(verb: tuple[str, ...]) -> None:
    out = gma_ok(*verb, "--help")
    assert "Usage: gma" in out
    assert max(map(len, gma(*verb, "-h").stdout.splitlines())) < 140
