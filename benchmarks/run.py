# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Measures gma against its peers: figures as ratios within one run, and curves over the length.

Prints Markdown tables; with --out DIR also writes figures.json, curves.json and curves.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
os.environ["PYTHONPATH"] = str(ROOT / "benchmarks")

import torch  # noqa: E402

from peers import curves, figures  # noqa: E402
from peers.verify import verify_all  # noqa: E402

KERNELS = ROOT / "build" / "benchmarks" / "gma_benchmarks"


def fma_peaks() -> tuple[float, float, str]:
    """Flop/s of one thread and of all at once, and the instruction set."""
    command = [KERNELS, "--benchmark_filter=^fma_peak", "--benchmark_format=json",
               "--benchmark_repetitions=5", "--benchmark_enable_random_interleaving=true"]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    runs = [run for run in report["benchmarks"] if run["run_type"] == "iteration"]

    def best(alone: bool) -> float:
        return max(run["flop/s"] for run in runs if (run["threads"] == 1) == alone)

    several = any(run["threads"] > 1 for run in runs)
    return best(True), best(not several), runs[0]["label"]


def machine(peak: float, peak_of_all: float, instruction_set: str) -> str:
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
            break
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True,
                            text=True, check=False).stdout.strip()
    threads = torch.get_num_threads()
    return (f"{model}, {threads} threads, torch {torch.__version__}, commit {commit}; "
            f"FMA peak of one thread {peak / 1e9:.1f} GF/s, of {threads} at once "
            f"{peak_of_all / 1e9:.1f} GF/s ({instruction_set})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true",
                        help="a million tokens, more rounds, longer curves")
    parser.add_argument("--out", type=Path, help="folder for JSON and the picture")
    parser.add_argument("--only", choices=["figures", "curves"], help="one of the two parts")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    rounds = 9 if arguments.full else 5
    longest = 1_048_576 if arguments.full else 131_072
    verify_all()
    print("Every contestant agrees with its definition, gradients included.")
    peaks = fma_peaks()
    print(machine(*peaks), flush=True)

    if arguments.only != "curves":
        groups = [
            lambda: figures.rate_figures(rounds, {1: peaks[0], torch.get_num_threads(): peaks[1]}),
            lambda: figures.peer_figures(rounds),
            lambda: figures.sdpa_figures(rounds),
            lambda: figures.plain_figure(rounds),
            lambda: figures.thread_figure(rounds),
            lambda: figures.scaling_figure(3, longest),
            lambda: figures.half_figure(rounds),
            lambda: figures.step_figure(KERNELS),
            lambda: figures.memory_figures(),
        ]
        print("\n| figure | goal | reached | range | met | |\n|---|---|---|---|---|---|")
        reached = []
        for group in groups:
            for figure in group():
                print(figure.row(), flush=True)
                reached.append(figure)
        if arguments.out:
            text = json.dumps(figures.as_json(reached), indent=1)
            (arguments.out / "figures.json").write_text(text + "\n")

    if arguments.only != "figures":
        lengths = [2**p for p in range(8, 18 if arguments.full else 15)]
        if curves.PEERS[curves.PERFORMER] is None:
            print("\nperformer-pytorch is not installed and left out (benchmarks/requirements.txt).")
        result = {}
        for kind, causal in (("bidirectional", False), ("causal", True)):
            print(f"\n{kind}, forward + backward, H=8, K=128, D=Dv=64:")
            result[kind] = curves.measure(lengths, causal, 3, 16384 if arguments.full else 4096)
            print(f"  crossover with SDPA: N = {curves.crossover(result[kind])}")
        if arguments.out:
            curves.save(result, arguments.out / "curves.json")
            curves.draw(result, arguments.out / "curves.svg")


if __name__ == "__main__":
    main()
