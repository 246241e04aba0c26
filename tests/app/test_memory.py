# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""gma train: how much memory a run takes."""

import random
from pathlib import Path

from conftest import gma_ok, log_records

LONGEST = 4000
MODEL = (
    f"--context={LONGEST} --layers=2 --hidden-size=32 --heads=2 --components=16 --batch-size=8 "
    "--valid-every=100000 --threads=1"
).split()


def peak_memory(folder: Path, lengths: list[int], steps: int) -> int:
    folder.mkdir()
    data = folder / "texts.tsv"
    data.write_text("".join(f"{i % 2}\t{'x' * n}\n" for i, n in enumerate(lengths)))
    gma_ok(
        *("train", "classify", "--data", data, "--out", folder / "run"),
        *(*MODEL, f"--steps={steps}"),
    )
    [final] = log_records(folder / "run", "final")
    return final["peak_memory_bytes"]


def test_batches_of_many_lengths_take_no_more_than_the_longest(tmp_path: Path) -> None:
    """Memory of one batch must serve the next, though its tensors are of other sizes."""
    lengths = [random.Random(i).randint(200, LONGEST) for i in range(400)]
    alike = peak_memory(tmp_path / "alike", [LONGEST] * 40, steps=3)
    varied = peak_memory(tmp_path / "varied", lengths, steps=45)
    assert varied < 1.15 * alike
