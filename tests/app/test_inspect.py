# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma inspect: its figures against those of scikit-learn and SciPy, and odd input."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY, gma_fails, gma_ok, log_records
from planted import planted_run
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
    for name in ("usage_entropy", "nmi", "nmi_by_chance", "responsibility_entropy"):
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
        assert bounds["responsibilities"] == pytest.approx(bounds["score_spread"] / 2)


def test_a_planted_model_has_an_nmi_of_one(tmp_path: Path) -> None:
    checkpoint, text = planted_run(tmp_path)
    metrics = inspect(tmp_path / "out", checkpoint, "--data", text)
    for name in ("nmi", "ami"):
        assert metrics[name] == pytest.approx(1.0, abs=1e-9)
    assert metrics["nmi_by_chance"] < 0.01
    assert metrics["components_used"] == metrics["components"] == 16
    assert metrics["top_responsibility"] == pytest.approx(1.0, abs=1e-6)
    used = {name for name, count in metrics["token_categories"].items() if count}
    assert used == {"capitalised", "digit", "punctuation", "other"}


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
    ]:
        assert message in gma_fails(2, "inspect", *args, "--out", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_training_logs_how_mixtures_are_used(lm_run: Path, tmp_path: Path, text_file: Path) -> None:
    for record in log_records(lm_run, "train"):
        assert 0.0 < record["usage_entropy"] <= 1.0
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
