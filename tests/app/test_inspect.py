# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma inspect: its figures against those of scikit-learn and SciPy, and odd input."""

import base64
import json
import math
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, gma_fails, gma_ok, log_records
from planted import changed, planted_run
from safetensors import safe_open
from safetensors.numpy import load_file
from scipy.stats import entropy
from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

COMPONENTS = 4


def inspect(out: Path, *args: object) -> dict:
    gma_ok("inspect", *args, "--out", out, "--threads=1")
    return json.loads((out / "metrics.json").read_text())


@pytest.fixture(scope="session")
def inspected(lm_run: Path, text_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("inspect") / "lm"
    inspect(out, lm_run, "--data", text_file, f"--responsibilities={COMPONENTS}", "--tokens=6000")
    return out


def test_figures_are_those_of_scikit_learn_and_scipy(inspected: Path) -> None:
    metrics = json.loads((inspected / "metrics.json").read_text())
    tensors = load_file(inspected / "responsibilities.safetensors")
    categories = tensors["categories"]
    assert metrics["tokens"] == len(categories) == 6000
    with safe_open(inspected / "responsibilities.safetensors", "np") as file:
        names = file.metadata()["categories"].split(",")
    assert metrics["token_categories"] == {
        name: int((categories == i).sum()) for i, name in enumerate(names)
    }
    log_k = math.log(COMPONENTS)
    for side in ("query", "key"):
        top = tensors[f"layer.0.{side}.components"]
        gamma = np.zeros((6000, 2, COMPONENTS))
        np.put_along_axis(gamma, top, tensors[f"layer.0.{side}.responsibilities"], axis=2)
        assert np.allclose(gamma.sum(2), 1.0, atol=1e-5)
        for head in range(2):
            found = metrics["layers"][0]["heads"][head][side]
            first, usage = top[:, head, 0], gamma[:, head].mean(0)
            counts = np.bincount(first, minlength=COMPONENTS)
            expected = {
                "components": COMPONENTS,
                "components_used": len(set(first)),
                "components_dead": (usage < 0.01 / COMPONENTS).sum(),
                "usage_entropy": entropy(usage) / log_k,
                "assignment_entropy": entropy(counts) / log_k,
                "effective_components": math.exp(entropy(usage)),
                "responsibility_entropy": entropy(gamma[:, head], axis=1).mean() / log_k,
                "routing_information": (entropy(usage) - entropy(gamma[:, head], axis=1).mean())
                / log_k,
                "top_responsibility": gamma[:, head].max(1).mean(),
                "nmi": normalized_mutual_info_score(categories, first),
                "ami": adjusted_mutual_info_score(categories, first),
            }
            chance = found.pop("nmi_by_chance")
            assert found == pytest.approx(expected, abs=1e-5)
            random = np.random.default_rng(1)
            shuffled = [
                normalized_mutual_info_score(random.permutation(categories), first) for _ in range(20)
            ]
            spread = np.std(shuffled) / math.sqrt(len(shuffled))
            assert abs(chance - np.mean(shuffled)) <= 5 * spread + 1e-6


def test_the_summary_is_the_mean_of_its_parts(inspected: Path) -> None:
    metrics = json.loads((inspected / "metrics.json").read_text())
    heads = [head for layer in metrics["layers"] for head in layer["heads"]]
    for name in ("usage_entropy", "nmi", "nmi_by_chance", "responsibility_entropy",
                 "routing_information"):
        sides = [np.mean([head[side][name] for head in heads]) for side in ("query", "key")]
        assert metrics[name] == pytest.approx(np.mean(sides), abs=1e-12)
        assert [metrics[side][name] for side in ("query", "key")] == pytest.approx(sides, abs=1e-12)
    assert metrics["components"] == 2 * COMPONENTS


def test_overlap_is_that_of_the_checkpoint(inspected: Path, lm_run: Path) -> None:
    metrics = json.loads((inspected / "metrics.json").read_text())
    weights = load_file(lm_run / "best.safetensors")
    prefix = "model.transformer.blocks.0.mixer."
    means = weights[prefix + "means"].astype(float)
    variances = np.logaddexp(0, weights[prefix + "raw_variances"].astype(float)) + 1e-4
    for head in range(2):
        values = []
        for a in range(COMPONENTS):
            for b in range(a):
                (m, n), (v, w) = means[head, [a, b]], variances[head, [a, b]]
                distance = np.sum((m - n) ** 2 / (v + w)) / 4 + 0.5 * np.sum(
                    np.log((v + w) / 2 / np.sqrt(v * w))
                )
                values.append(np.exp(-distance))
        found = metrics["layers"][0]["heads"][head]
        assert found["overlap_mean"] == pytest.approx(np.mean(values), rel=1e-4)
        assert found["overlap_max"] == pytest.approx(np.max(values), rel=1e-4)
        assert found["variance_min"] == pytest.approx(variances[head].min(), rel=1e-5)
        bounds = found["bounds"]
        assert bounds["rank"] == COMPONENTS
        assert bounds["radius"] == max(found["query_radius"], found["key_radius"]) > 0
        for name, share in (("responsibilities", 2), ("gradient", 4), ("read_query", 4), ("read_key", 2)):
            assert bounds[name] == pytest.approx(bounds["score_spread"] / share)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return planted_run(tmp_path_factory.mktemp("planted"))


def test_a_planted_model_has_an_nmi_of_one(planted: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, text = planted
    metrics = inspect(tmp_path / "out", checkpoint, "--data", text)
    assert metrics["routing_information"] == pytest.approx(metrics["usage_entropy"], abs=1e-5)
    assert metrics["routing_information"] > 0.9
    for name in ("nmi", "ami"):
        assert metrics[name] == pytest.approx(1.0, abs=1e-9)
    assert metrics["nmi_by_chance"] < 0.01
    assert metrics["components_used"] == metrics["components"] == 16
    assert metrics["top_responsibility"] == pytest.approx(1.0, abs=1e-6)
    used = {name for name, count in metrics["token_categories"].items() if count}
    assert used == {"capitalised", "digit", "punctuation", "other"}


def test_a_collapsed_model_has_no_information(planted: tuple[Path, Path], tmp_path: Path) -> None:
    """Its usage is as even as can be, because each token is routed to all components alike."""
    checkpoint = changed(planted[0], "collapsed.safetensors", "mixer.means", 0.0)
    metrics = inspect(tmp_path / "out", checkpoint, "--data", planted[1])
    assert metrics["usage_entropy"] == pytest.approx(1.0) and metrics["components_dead"] == 0
    assert metrics["routing_information"] == pytest.approx(0.0, abs=1e-6)
    said = gma_ok("inspect", checkpoint, "--data", planted[1], "--out", tmp_path / "out")
    assert "information      0.000 of the greatest" in said
    assert "affinity of rank 4;" in said


def test_a_model_that_is_not_finite(planted: tuple[Path, Path], tmp_path: Path) -> None:
    for end, message in [
        ("mixer.means", "means of layer 0: expected finite numbers, got nan"),
        ("0.mixer.raw_variances", "variances of layer 0: expected finite numbers, got nan"),
        ("1.mixer.prior_logits", "priors of layer 1: expected finite numbers, got nan"),
        ("embedding.weight", "layer 0 makes routing vectors of tokens 0 to 31 that are not finite"),
    ]:
        checkpoint = changed(planted[0], "odd.safetensors", end, math.nan)
        assert message in gma_fails(2, "inspect", checkpoint, "--data", planted[1], "--out",
                                    tmp_path / "out")
        assert not (tmp_path / "out").exists()


def page_block(report: Path, name: str) -> bytes:
    found = re.search(rf'id="{name}">([^<]*)</script>', report.read_text())
    assert found is not None
    return base64.b64decode(found[1])


@pytest.mark.parametrize("is_causal", [True, False])
def test_windows_know_of_the_keys_outside(
    is_causal: bool, lm_run: Path, text_file: Path, classify_run: Path, tmp_path: Path
) -> None:
    """What the report needs so that a window's weights are those with which the model reads."""
    if is_causal:
        run, data = lm_run, text_file
    else:
        run, data = classify_run, tmp_path / "long"
        data.write_text("".join(f"{i % 2}\t{'a b1, ' * 60}{i}\n" for i in range(20)))
    inspect(tmp_path / "out", run, "--data", data, "--responsibilities=4", "--context=300",
            "--tokens=5000", "--sample=2000")
    tensors = load_file(tmp_path / "out" / "responsibilities.safetensors")
    gamma = np.zeros((2000, 2, COMPONENTS))
    np.put_along_axis(gamma, tensors["layer.0.key.components"],
                      tensors["layer.0.key.responsibilities"], axis=2)
    page = (tmp_path / "out" / "report.html").read_text()
    windows = json.loads(re.search(r'"windows":(\[\[.*?\]\])', page)[1])
    assert len(windows) == 8
    sums = np.frombuffer(page_block(tmp_path / "out" / "report.html", "m0-0-windows"), np.float32)
    sums = sums[-8 * 2 * COMPONENTS :].reshape(8, 2, COMPONENTS)
    checked = 0
    for (start, length), found in zip(windows, sums, strict=True):
        first = start // 300 * 300
        if first + 300 > 2000:
            continue  # a sequence that the sample has a part of
        outside = gamma[first:start].sum(0)
        if not is_causal:
            outside += gamma[start + length : first + 300].sum(0)
        assert np.allclose(found, outside, rtol=1e-4, atol=1e-3)
        checked += 1
    assert checked >= 6 and sums.max() > 50


def test_files_appear_together(lm_run: Path, text_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    tensors = [out / "responsibilities.safetensors", out / "responsibilities-2.safetensors"]
    inspect(out, "--compare", lm_run, lm_run, "--data", text_file, "--tokens=50",
            "--responsibilities=1")
    assert all(file.exists() for file in tensors)
    inspect(out, lm_run, "--data", text_file, "--tokens=60", "--responsibilities=1")
    assert len(load_file(tensors[0])["tokens"]) == 60 and not tensors[1].exists()
    before = (out / "metrics.json").read_bytes()
    # Where one file cannot be written, all stay as they were.
    (out / ".responsibilities.safetensors.staged").mkdir()
    (out / ".responsibilities.safetensors.staged" / "file").touch()
    gma_fails(1, "inspect", lm_run, "--data", text_file, "--tokens=70", "--responsibilities=1",
              "--out", out)
    assert (out / "metrics.json").read_bytes() == before
    assert len(load_file(tensors[0])["tokens"]) == 60
    inspect(out, lm_run, "--data", text_file, "--tokens=80")
    assert not tensors[0].exists()
    tensors[1].mkdir()
    assert "expected a file, got a folder" in gma_fails(2, "inspect", lm_run, "--data", text_file,
                                                        "--out", out)


def test_a_name_that_is_no_text(lm_run: Path, text_file: Path, tmp_path: Path) -> None:
    checkpoint = os.fsencode(tmp_path) + b"/m\xffdel.safetensors"
    shutil.copy(lm_run / "best.safetensors", checkpoint)
    metrics = inspect(tmp_path / "out", os.fsdecode(checkpoint), "--data", text_file, "--tokens=50",
                      "--responsibilities=1")
    assert metrics["checkpoint"].endswith("/m\ufffddel.safetensors")
    assert "m\\ufffddel" in (tmp_path / "out" / "report.html").read_text()


def test_what_was_read_in_pieces_is_what_one_pass_reads(lm_run: Path, tmp_path: Path) -> None:
    """700 tokens are two chunks of one sequence, which the state joins."""
    (tmp_path / "text").write_text("line 12 of a text, it says\n" * 26)
    together = inspect(tmp_path / "a", lm_run, "--data", tmp_path / "text", "--context=700",
                       "--responsibilities=4")
    assert together["sequences"] == 2  # 702 tokens
    afresh = inspect(tmp_path / "b", lm_run, "--data", tmp_path / "text", "--context=512",
                     "--responsibilities=4")
    assert afresh["sequences"] == 2
    one, other = (load_file(tmp_path / name / "responsibilities.safetensors") for name in "ab")
    gamma = "layer.0.key.responsibilities"
    assert np.array_equal(one[gamma][:512], other[gamma][:512])
    assert not np.allclose(one[gamma][512:], other[gamma][512:]), "the position goes on"


@pytest.mark.parametrize("bytes_of_text", [b"x", "\u4f60\u597d \U0001f600 <script>\n".encode(), b"\xff\xfe ok"])
def test_any_text(lm_run: Path, tmp_path: Path, bytes_of_text: bytes) -> None:
    (tmp_path / "text").write_bytes(bytes_of_text)
    if bytes_of_text.startswith(b"\xff"):
        assert "text file" in gma_fails(2, "inspect", lm_run, "--data", tmp_path / "text", "--out",
                                        tmp_path / "out")
        return
    metrics = inspect(tmp_path / "out", lm_run, "--data", tmp_path / "text")
    assert metrics["tokens"] == len(bytes_of_text)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script>\\n" not in page and page.endswith("</html>\n")


def test_one_component(text_file: Path, tmp_path: Path) -> None:
    gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY, "--steps=1",
           "--components=1")
    metrics = inspect(tmp_path / "out", tmp_path / "run", "--data", text_file, "--tokens=100")
    assert (metrics["components_used"], metrics["usage_entropy"], metrics["nmi"]) == (2, 0.0, 0.0)
    assert metrics["effective_components"] == pytest.approx(1.0)


def test_classifiers_and_comparisons(classify_run: Path, labelled_file: Path, tmp_path: Path) -> None:
    metrics = inspect(tmp_path / "out", "--compare", classify_run, classify_run / "last.safetensors",
                      "--data", labelled_file)
    one, other = metrics["models"]
    few = inspect(tmp_path / "few", classify_run, "--data", labelled_file, "--tokens=1")
    assert (few["tokens"], few["sequences"]) == (1, 1)
    assert one["task"] == "classify" and one["sequences"] == 200
    assert one["tokens"] == sum(len(line.split("\t")[1]) for line in
                                labelled_file.read_text().splitlines())
    assert one["token_categories"] == other["token_categories"]


def test_wrong_usage(lm_run: Path, classify_run: Path, text_file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "softmax", *TINY, "--steps=1",
           "--mixer=softmax")
    for args, message in [
        ((lm_run,), "--data is required"),
        ((lm_run, "--data", tmp_path / "empty"), "not empty"),
        ((lm_run, "--data", tmp_path / "none"), "no such file"),
        ((tmp_path / "softmax", "--data", text_file), "its mixer is softmax"),
        ((text_file, "--data", text_file), str(text_file)),
        ((classify_run, "--data", text_file), "text.txt:1"),
        ((lm_run, classify_run, "--data", text_file), "one checkpoint without --compare, got 2"),
        ((lm_run, "--compare", "--data", text_file), "two checkpoints with --compare, got 1"),
        ((lm_run, "--data", text_file, "--sample=0"), "--sample"),
        ((lm_run, "--data", text_file, "--tokens=500", "--window=500"),
         "--window 500: expected a token of the sample, which has 500: at most 499"),
    ]:
        assert message in gma_fails(2, "inspect", *args, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_training_logs_how_mixtures_are_used(lm_run: Path, tmp_path: Path, text_file: Path) -> None:
    for record in log_records(lm_run, "train"):
        assert 0.0 < record["usage_entropy"] <= 1.0
        assert 0.0 <= record["routing_information"] <= record["usage_entropy"]
        assert record["dead_components"] == 0
        assert 0.0 < record["variance_min"] <= record["variance_max"]
    # Logging is no part of training.
    gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "run", *TINY, "--log-every=1")
    for name in ("best", "last"):
        one, other = (load_file(run / f"{name}.safetensors") for run in (lm_run, tmp_path / "run"))
        assert all(np.array_equal(one[key], other[key]) for key in one)
    said = gma_ok("train", "lm", "--data", text_file, "--out", tmp_path / "other", *TINY, "--steps=1",
                  "--mixer=softmax")
    assert "usage" not in said
    assert "usage_entropy" not in log_records(tmp_path / "other", "train")[0]
