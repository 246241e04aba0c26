# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Interleaved timing: each round runs every contestant once, so that a slow spell of the machine meets
all of them. What counts is the best of the rounds, and the range is kept beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds."""

    best: float
    median: float
    worst: float

    def as_dict(self) -> dict[str, float]:
        return {"best": self.best, "median": self.median, "worst": self.worst}


def interleaved(
    contestants: Mapping[str, Callable[[], object]], rounds: int, budget: float = 60.0
) -> dict[str, Timing]:
    """Best, median and worst time of each, over at most `rounds` rounds and about `budget` seconds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run()
    end = time.perf_counter() + budget
    for done in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
        if done >= 2 and time.perf_counter() > end:
            break
    return {
        name: Timing(min(values), statistics.median(values), max(values))
        for name, values in times.items()
    }
