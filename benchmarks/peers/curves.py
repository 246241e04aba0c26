# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Time and memory over the length of the sequence, for every peer, and their picture."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from peers import attention
from peers.figures import Problem
from peers.measure import interleaved

PERFORMER = "Performer (performer-pytorch)"
PEERS = {"gma": attention.gma, "SDPA": attention.sdpa, "linear (elu + 1)": attention.linear,
         "careful": attention.careful, PERFORMER: attention.performer()}
QUADRATIC = {"SDPA"}
BIDIRECTIONAL = {PERFORMER}

Curves = dict[str, list[tuple[int, float, float]]]


def peak_memory(peer: str, tokens: int, causal: bool) -> float:
    """MiB beside the inputs, in a process of its own."""
    command = [sys.executable, "-m", "peers.curves", peer, str(tokens), str(int(causal))]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def measure(lengths: list[int], causal: bool, rounds: int, quadratic_limit: int) -> Curves:
    """(N, seconds, MiB) of forward + backward for each peer, H=8, K=128, D=64."""
    peers = {name: f for name, f in PEERS.items()
             if f is not None and not (causal and name in BIDIRECTIONAL)}
    curves: Curves = {name: [] for name in peers}
    for tokens in lengths:
        problem = Problem(tokens)
        runs = {name: problem.run(f, causal, True) for name, f in peers.items()
                if tokens <= quadratic_limit or name not in QUADRATIC}
        times = interleaved(runs, rounds, budget=20)
        for name, timing in times.items():
            curves[name].append((tokens, timing.best, peak_memory(name, tokens, causal)))
            print(f"  N={tokens} {name}: {timing.best * 1e3:.1f} ms, {curves[name][-1][2]:.0f} MiB",
                  flush=True)
    return curves


def slope(points: list[tuple[int, float, float]], axis: int) -> float:
    """Least-squares exponent of N over the longer half of the lengths."""
    half = points[len(points) // 2 :] if len(points) > 3 else points
    x = [math.log(p[0]) for p in half]
    y = [math.log(max(p[axis], 1e-9)) for p in half]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    variance = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / variance if variance else 0.0


def crossover(curves: Curves) -> float | None:
    """Length at which gma becomes faster than SDPA, interpolated in logarithms."""
    sdpa = {n: t for n, t, _ in curves["SDPA"]}
    previous: tuple[float, float] | None = None
    for n, t, _ in curves["gma"]:
        if n not in sdpa:
            break
        gap = math.log(t / sdpa[n])
        if gap <= 0:
            if previous is None:
                return float(n)
            x0, g0 = previous
            return math.exp(x0 + (math.log(n) - x0) * g0 / (g0 - gap))
        previous = (math.log(n), gap)
    return None


def draw(curves: Mapping[str, Curves], path: Path) -> None:
    """One row a kind (bidirectional, causal), time beside memory, log-log."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(curves), 2, figsize=(11, 4.2 * len(curves)), squeeze=False)
    for row, (kind, kind_curves) in zip(axes, curves.items()):
        for axis, label, column, unit in ((row[0], "time", 1, "s"), (row[1], "memory", 2, "MiB")):
            for name, points in kind_curves.items():
                if points:
                    axis.loglog([p[0] for p in points], [p[column] for p in points], marker="o",
                                markersize=3, label=f"{name} (slope {slope(points, column):.2f})")
            axis.set(title=f"{kind}: {label}, forward + backward", xlabel="tokens", ylabel=unit)
            axis.grid(alpha=0.3, which="both")
        at = crossover(kind_curves)
        if at is not None:
            row[0].axvline(at, color="gray", linestyle=":")
            row[0].annotate(f"crossover with SDPA: {at:.0f}", (at, row[0].get_ylim()[0]),
                            textcoords="offset points", xytext=(4, 6), fontsize=8, color="gray")
        row[0].legend(fontsize=8)
        row[1].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def _print_peak_memory(peer: str, tokens: int, causal: bool) -> None:
    from peers.memory import status

    Problem(64).run(PEERS[peer], causal, True)()
    run = Problem(tokens).run(PEERS[peer], causal, True)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    print((status("VmHWM") - before) / 2**20)


def save(curves: Mapping[str, Curves], path: Path) -> None:
    path.write_text(json.dumps(curves, indent=1) + "\n")


if __name__ == "__main__":
    _print_peak_memory(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
