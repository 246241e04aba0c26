# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma train: what a run leaves behind, resuming, interruptions, kills."""

import gzip
import json
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import BINARY, TINY, command, gma, gma_fails, gma_ok, log_records
from safetensors import safe_open
from safetensors.numpy import load_file

WITHOUT_MIXER = [option for option in TINY if not option.startswith("--components")]
WIKITEXT = Path(__file__).parents[3] / "shared" / "data" / "wikitext"


def metadata(path: Path) -> dict[str, str]:
    with safe_open(path, "np") as file:
        return file.metadata()


def assert_same_run(a: Path, b: Path) -> None:
    """Same bits in every tensor, same progress but for the time it took."""
    for name in ("last.safetensors", "best.safetensors"):
        x, y = load_file(a / name), load_file(b / name)
        assert x.keys() == y.keys()
        for key in x:
            assert x[key].tobytes() == y[key].tobytes(), key
        left, right = (json.loads(metadata(folder / name)["progress"]) for folder in (a, b))
        assert left | {"seconds": 0} == right | {"seconds": 0}


def start(*args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_step(out: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        log = out / "log.jsonl"
        if log.exists() and f'"step":{step}' in log.read_text():
            return
        time.sleep(0.01)
    pytest.fail(f"the run never came to step {step}: {process.communicate()}")


def test_a_run_leaves_checkpoints_and_a_log(lm_run: Path) -> None:
    last = load_file(lm_run / "last.safetensors")
    best = load_file(lm_run / "best.safetensors")
    assert {name.split(".")[0] for name in last} == {"model", "optimizer", "rng"}
    assert {name.split(".")[0] for name in best} == {"model"}
    info = metadata(lm_run / "last.safetensors")
    assert json.loads(info["progress"])["step"] == 20
    assert json.loads(info["model_config"])["hidden_size"] == 16
    assert json.loads(info["training_config"])["steps"] == 20
    assert info["tokenizer"] == "bytes"

    (config,) = log_records(lm_run, "config")
    assert config["options"]["hidden-size"] == 16
    assert [r["step"] for r in log_records(lm_run, "train")] == [1, 5, 10, 15, 20]
    assert all(r["loss"] > 0 and r["lr"] > 0 for r in log_records(lm_run, "train"))
    assert [r["step"] for r in log_records(lm_run, "valid")] == [10, 20]
    (final,) = log_records(lm_run, "final")
    assert 0 < final["bigram_bits_per_byte"] < final["unigram_bits_per_byte"] < 8
    assert final["tokens_per_second"] > 0 and final["peak_memory_bytes"] > 1e6


def test_the_summary_says_what_was_reached(tmp_path: Path, text_file: Path) -> None:
    out = gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY)
    for words in ("bits per byte", "unigram model", "bigram model", "tokens/s", "peak memory"):
        assert words in out
    assert f"{BINARY} generate {tmp_path / 'run'} --prompt 'The '" in out
    assert "\r" not in out and "\x1b" not in out, "plain lines where there is no terminal"


def test_flags_win_over_a_config_file(tmp_path: Path, text_file: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'data = ["{text_file}"]\nout = "{tmp_path / "run"}"\nsteps = 3\nlayers = 1\n'
        "hidden-size = 16\nheads = 2\ncontext = 16\nbatch-size = 2\nrotary = false\nseed = 5\n"
    )
    gma_ok("train", "lm", "--config", config, "--steps", 2, "--components=4")
    (record,) = log_records(tmp_path / "run", "config")
    options = record["options"]
    assert (options["steps"], options["seed"], options["components"]) == (2, 5, 4)
    assert options["rotary"] is False and options["use-short-conv"] is True
    config.write_text("stepz = 3\n")
    assert "stepz" in gma_fails(2, "train", "lm", "--config", config, "--data", text_file)
    config.write_text("steps = 0\n")
    assert "steps" in gma_fails(2, "train", "lm", "--config", config, "--data", text_file)


def test_sentencepiece_is_part_of_the_checkpoint(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok(
        *("train", "lm", "--data", text_file, "--out", run, *TINY),
        *("--tokenizer=sentencepiece", "--vocab-size=300"),
    )
    model = load_file(run / "best.safetensors")["tokenizer.model"]
    assert model.dtype == np.uint8
    text = gma_ok("generate", run, "--prompt=line ", "--max-tokens=20")
    assert text.strip()

    # The model inside serves as a tokenizer for other runs.
    (tmp_path / "pieces.model").write_bytes(model.tobytes())
    out = gma_ok(
        *("train", "lm", "--data", text_file, "--out", tmp_path / "other", *TINY),
        *("--steps=2", "--tokenizer-model", tmp_path / "pieces.model"),
    )
    assert "tokenizer sentencepiece" in out


def test_classifier_learns(classify_run: Path, labelled_file: Path) -> None:
    result = json.loads(gma_ok("eval", classify_run, "--data", labelled_file, "--json"))
    assert result["texts"] == 200
    assert result["accuracy"] > 0.95
    with gzip.open(classify_run / "texts.tsv.gz", "wb") as file:
        file.write(labelled_file.read_bytes())
    again = json.loads(
        gma_ok(*("eval", classify_run, "--data", classify_run / "texts.tsv.gz", "--json"))
    )
    assert again["loss"] == result["loss"]


@pytest.mark.parametrize(
    ("mixer", "options"),
    [
        ("linear", ()),
        ("performer", ("--num-features=7", "--feature-redraw-interval=4")),
    ],
)
def test_baselines_learn_text_and_generate(
    tmp_path: Path, text_file: Path, mixer: str, options: tuple[str, ...]
) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *WITHOUT_MIXER, "--mixer", mixer, *options)
    losses = [record["loss"] for record in log_records(run, "train")]
    assert losses[-1] < 0.8 * losses[0]
    config = json.loads(gma_ok("info", run, "--json"))["checkpoint"]["model_config"]
    assert config["mixer"] == mixer
    assert gma_ok("generate", run, "--prompt=line ", "--max-tokens=40", "--temperature=0")


def test_linformer_classifies_and_is_refused_for_text(
    tmp_path: Path, text_file: Path, labelled_file: Path
) -> None:
    run = tmp_path / "run"
    gma_ok(
        *("train", "classify", "--data", labelled_file, "--out", run, *WITHOUT_MIXER),
        *("--mixer=linformer", "--projection-rank=4", "--steps=60"),
    )
    assert json.loads(gma_ok("eval", run, "--data", labelled_file, "--json"))["accuracy"] > 0.9
    message = gma_fails(2, "eval", run, "--data", labelled_file, "--context=33")
    assert "--mixer linformer and reads at most 32 tokens" in message
    message = gma_fails(2, "train", "lm", "--data", text_file, "--mixer=linformer")
    assert message.startswith("--mixer linformer: expected a causal mixer")


def test_early_stop(tmp_path: Path, text_file: Path) -> None:
    out = gma_ok(
        *("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY),
        *("--steps=500", "--valid-every=1", "--patience=2", "--lr=1e-12", "--min-lr=1e-12"),
    )
    assert "stopped early" in out


@pytest.mark.parametrize(
    "mixer",
    [("--components=4",), ("--mixer=performer", "--feature-redraw-interval=7")],
    ids=["gma", "performer"],
)
def test_interrupt_saves_and_resume_gives_the_same_bits(
    tmp_path: Path, text_file: Path, mixer: tuple[str, ...]
) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    options = [*WITHOUT_MIXER, *mixer, "--steps=200", "--dropout=0.1", "--attention-dropout=0.1"]
    gma_ok("train", "lm", "--data", text_file, "--out", straight, *options)

    process = start("train", "lm", "--data", text_file, "--out", stopped, *options)
    wait_for_step(stopped, 20, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"{BINARY} train lm --resume {stopped}" in out
    assert 0 < json.loads(metadata(stopped / "last.safetensors")["progress"])["step"] < 200

    gma_ok("train", "lm", "--resume", stopped)
    assert_same_run(stopped, straight)
    steps = [record["step"] for record in log_records(stopped, "train")]
    assert steps == [record["step"] for record in log_records(straight, "train")]


def test_a_run_can_be_lengthened_but_not_reshaped(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--steps=4")
    gma_ok("train", "lm", "--resume", run / "last.safetensors", "--steps=6")
    assert json.loads(metadata(run / "last.safetensors")["progress"])["step"] == 6
    assert "--layers" in gma_fails(2, "train", "lm", "--resume", run, "--layers=2")
    assert "no optimizer" in gma_fails(2, "train", "lm", "--resume", run / "best.safetensors")
    assert "classify" in gma_fails(2, "train", "classify", "--resume", run)
    assert "holds a run" in gma_fails(2, "train", "lm", "--data", text_file, "--out", run, *TINY)
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--steps=2", "--overwrite")
    assert json.loads(metadata(run / "last.safetensors")["progress"])["step"] == 2


def test_a_run_goes_on_in_another_folder(tmp_path: Path, text_file: Path, lm_run: Path) -> None:
    first, other = tmp_path / "first", tmp_path / "a folder"
    gma_ok("train", "lm", "--data", text_file, "--out", first, *TINY, "--steps=10")
    gma_ok("train", "lm", "--data", text_file, "--out", other, *TINY, "--steps=2", "--seed=9")
    resume = ("train", "lm", "--resume", first, "--steps=20", "--out", other)
    assert "holds a run already" in gma_fails(2, *resume)
    assert json.loads(metadata(other / "last.safetensors")["progress"])["step"] == 2
    out = gma_ok(*resume, "--overwrite")
    assert f"--resume '{other}' --steps 40" in out, "can be pasted into a shell"
    assert json.loads(metadata(other / "last.safetensors")["progress"])["step"] == 20
    assert len(log_records(other, "config")) == 1
    assert [r["step"] for r in log_records(other, "train")] == [1, 5, 10, 15, 20]
    assert len(log_records(first, "final")) == 1, "the run that was gone on from stays"


def test_a_run_without_its_best_model_goes_on(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY)
    (run / "best.safetensors").unlink()
    out = gma_ok("train", "lm", "--resume", run)
    assert "best.safetensors is not there" in out and "Best model: step 20 of 20" in out
    assert (run / "best.safetensors").exists()


def test_a_complete_run_is_left_as_it_is(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    first = gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--max-minutes=5")
    before = [(run / name).read_bytes() for name in ("log.jsonl", "last.safetensors")]
    again = gma_ok("train", "lm", "--resume", run)
    assert "at step 20 of 20: nothing is left to do" in again
    assert [(run / name).read_bytes() for name in ("log.jsonl", "last.safetensors")] == before
    figures = next(line for line in first.splitlines() if line.startswith("Held out:"))
    assert figures in again
    assert "--steps 40 --max-minutes 10" in again, "a hint that does not end at once"
    assert "--overwrite" in gma_fails(2, "train", "lm", "--resume", run, "--overwrite")


def test_options_without_effect_are_noted(tmp_path: Path, text_file: Path) -> None:
    out = gma_ok(
        *("train", "lm", "--data", text_file, "--valid-data", text_file, *TINY, "--steps=1"),
        *("--out", tmp_path / "run", "--mixer=softmax", "--vocab-size=300", "--context=20000"),
        *("--valid-fraction=0.1", "--batch-size=1", "--covariance-type=tied"),
    )
    for option in ("--components", "--covariance-type", "--vocab-size", "--valid-fraction"):
        assert f"note: {option} has no effect with " in out
    assert "shorter than --context 20000" in out and "vocabulary 256" in out


def test_mamba_trains_and_generates(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    options = ("--mixer=mamba", "--state-size=4", "--inner-size=24", "--dt-rank=2", "--steps=30")
    out = gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, *options, "--rotary")
    assert "note: --rotary has no effect with --mixer mamba" in out
    assert "--state-size" not in out
    losses = [record["loss"] for record in log_records(run, "train")]
    assert losses[-1] < losses[0] - 0.5
    config = json.loads(gma_ok("info", run, "--json"))["checkpoint"]["model_config"]
    assert [config[key] for key in ("state_size", "inner_size", "dt_rank")] == [4, 24, 2]
    text = gma_ok("generate", run, "--prompt=line ", "--greedy", "--max-tokens=20")
    assert text == gma_ok("generate", run, "--prompt=line ", "--greedy", "--max-tokens=20")
    for option, value in (("--attention-dropout", 0.1), ("--key-value-heads", 1)):
        assert gma_fails(
            2, "train", "lm", "--data", text_file, *TINY, "--mixer=mamba", f"{option}={value}"
        ).startswith(f"{option} {value}: expected 0 with --mixer mamba")


def test_two_runs_do_not_share_a_folder(tmp_path: Path, text_file: Path) -> None:
    options = ("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY)
    first = start(*options, "--steps=100000")
    wait_for_step(tmp_path / "run", 1, first)
    assert "another run is going on" in gma_fails(2, *options, "--overwrite")
    first.kill()
    first.communicate()


def test_other_threads_are_noted(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--steps=2")
    out = gma_ok("train", "lm", "--resume", run, "--steps=3", "--threads=2")
    assert "note: 2 threads instead of 1" in out


def test_a_second_interrupt_ends_at_once(tmp_path: Path, text_file: Path) -> None:
    # One batch of this takes seconds, and between batches an interrupt would be noticed.
    process = start(
        *("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY),
        *("--steps=5", "--batch-size=2000", "--layers=8"),
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "run" / "last.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.5)  # from the first save into the step
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130


def test_a_killed_run_leaves_a_loadable_checkpoint(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    options = [*TINY, "--steps=100000", "--save-every=1", "--valid-every=2", "--valid-tokens=64"]
    random.seed(1)
    steps = []
    first = start("train", "lm", "--data", text_file, "--out", run, *options)
    wait_for_step(run, 1, first)
    process = first
    for _ in range(15):
        time.sleep(random.uniform(0.0, 0.4))
        process.kill()
        process.communicate()
        for name in ("last.safetensors", "best.safetensors"):
            if (run / name).exists():
                load_file(run / name)
        info = json.loads(gma_ok("info", run / "last.safetensors", "--json"))
        steps.append(info["checkpoint"]["progress"]["step"])
        process = start("train", "lm", "--resume", run)
        deadline = time.monotonic() + 60
        stamp = (run / "last.safetensors").stat().st_mtime_ns
        while (run / "last.safetensors").stat().st_mtime_ns == stamp:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.005)
    process.kill()
    process.communicate()
    assert steps == sorted(steps) and steps[-1] > steps[0]


def test_resume_clears_half_written_files(tmp_path: Path, text_file: Path) -> None:
    run = tmp_path / "run"
    gma_ok("train", "lm", "--data", text_file, "--out", run, *TINY, "--steps=2")
    (run / ".last.safetensors.tmp").write_bytes(b"half")
    gma_ok("train", "lm", "--resume", run, "--steps=3")
    assert not (run / ".last.safetensors.tmp").exists()


@pytest.mark.skipif(not WIKITEXT.exists(), reason=f"no {WIKITEXT}")
def test_wikitext_files_as_they_come(tmp_path: Path) -> None:
    out = gma_ok(
        *("train", "lm", "--data", WIKITEXT / "wt2.valid.tokens.gz"),
        *("--valid-fraction=0.01", "--out", tmp_path / "run", *TINY),
        *("--steps=2", "--context=128"),
    )
    assert "1.1M tokens to train on" in out
    evaluation = json.loads(
        gma_ok(
            *("eval", tmp_path / "run", "--data", WIKITEXT / "wt2.test.tokens.gz", "--json"),
            *("--context=512",),
        )
    )
    assert evaluation["words"] == 245569, "the count that papers use"


def test_the_terminal_shows_a_bar(tmp_path: Path, text_file: Path) -> None:
    pty = pytest.importorskip("pty")
    import os

    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY),
        stdout=follower,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            block = os.read(leader, 4096)
        except OSError:  # the other end was closed
            break
        if not block:
            break
        shown += block
    os.close(leader)
    assert process.wait() == 0, process.stderr.read()
    assert b"[##" in shown and b" left" in shown and b"\r" in shown


def test_too_little_memory_is_one_line(tmp_path: Path, text_file: Path) -> None:
    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

    message = gma_fails(
        *(1, "train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY),
        *("--hidden-size=100000", "--heads=1"),  # a projection of 40 GB
        preexec_fn=limit_memory,
    )
    assert message == "out of memory"


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path, text_file: Path) -> None:
    result = gma(
        *("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY),
        *("--lr=1e30", "--clip=0", "--warmup=0"),
    )
    assert result.returncode == 1
    assert "try a lower --lr" in result.stderr and len(result.stderr.splitlines()) == 1
