# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The figures that the kernels are held to, each a ratio of times taken in one run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from peers import attention
from peers.measure import Timing, interleaved

Attention = Callable[[Tensor, Tensor, Tensor, attention.Mixture, bool], Tensor]

HEADS, COMPONENTS, SIZE = 8, 128, 64


@dataclass(frozen=True)
class Figure:
    """`value` is the ratio of best times, `low` and `high` those of the other rounds."""

    name: str
    goal: float | None
    value: float
    low: float
    high: float
    detail: str

    def row(self) -> str:
        goal = "" if self.goal is None else f"{self.goal:g}"
        met = "" if self.goal is None else ("yes" if self.value >= self.goal else "no")
        return (
            f"| {self.name} | {goal} | {self.value:.2f} | {self.low:.2f} to {self.high:.2f} "
            f"| {met} | {self.detail} |"
        )


def ratio(name: str, goal: float | None, above: Timing, below: Timing, factor: float = 1.0,
          detail: str = "") -> Figure:
    """factor * above / below."""
    middle = factor * above.median / below.median
    best = factor * above.best / below.best
    worst = factor * above.worst / below.worst
    return Figure(name, goal, best, min(middle, worst, best), max(middle, worst, best), detail)


class Problem:
    """One set of inputs; `run(f)` is forward, or forward and backward, through f."""

    def __init__(self, tokens: int, heads: int = HEADS, components: int = COMPONENTS,
                 size: int = SIZE, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self.inputs = [torch.randn(1, tokens, heads, size).to(dtype) for _ in range(3)]
        self.mixture = attention.make_mixture(heads, components, size)
        self.upstream = torch.randn(1, tokens, heads, size).to(dtype)

    def run(self, f: Attention, causal: bool, backward: bool) -> Callable[[], object]:
        def forward() -> Tensor:
            with torch.no_grad():
                return f(*self.inputs, self.mixture, causal)

        def forward_and_backward() -> None:
            inputs = [x.detach().requires_grad_() for x in self.inputs]
            mixture = attention.Mixture(
                *(x.detach().requires_grad_() for x in self.mixture.tensors())
            )
            f(*inputs, mixture, causal).backward(self.upstream)

        return forward_and_backward if backward else forward


def with_threads(count: int, run: Callable[[], object]) -> Callable[[], object]:
    """`run` on `count` threads; the number before is set again afterwards."""

    def body() -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        run()
        torch.set_num_threads(before)

    return body


def sgemm() -> Callable[[], object]:
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    return lambda: a @ b


SGEMM_FLOPS = 2.0 * 2048**3


def rate_figures(rounds: int, peaks: Mapping[int, float]) -> list[Figure]:
    """`peaks` maps a number of threads to what multiply-adds alone reach on them, in flop/s. One thread
    beside all of them: virtual cores may share a real one, and change their mind during a run."""
    problem = Problem(8192)
    runs = {
        "sgemm": sgemm(),
        "bidirectional forward": problem.run(attention.gma, False, False),
        "bidirectional forward + backward": problem.run(attention.gma, False, True),
        "causal forward + backward": problem.run(attention.gma, True, True),
    }
    goals = dict(zip(runs, (None, 0.95, 0.80, 0.65)))
    figures = []
    for threads, peak in peaks.items():
        times = interleaved({name: with_threads(threads, run) for name, run in runs.items()}, rounds)
        for name, timing in times.items():
            if name == "sgemm":
                continue
            work = attention.useful_flops(8192, HEADS, COMPONENTS, SIZE, "backward" in name)
            rate = work / timing.best
            figures.append(ratio(
                f"{name}, N=8192, {threads} thread{'s' if threads > 1 else ''}: rate over sgemm",
                goals[name], times["sgemm"], timing, work / SGEMM_FLOPS,
                f"{rate / 1e9:.1f} GF/s, {rate / peak:.0%} of the FMA peak; "
                f"sgemm {SGEMM_FLOPS / times['sgemm'].best / 1e9:.1f}"))
    return figures


def peer_figures(rounds: int) -> list[Figure]:
    """Against other ways to write it in torch, and the cheaper covariances against `diag`."""
    problem = Problem(8192)
    tied, spherical = Problem(8192), Problem(8192)
    tied.mixture = replace(tied.mixture, variances=tied.mixture.variances[:, :1].contiguous())
    spherical.mixture = replace(
        spherical.mixture, variances=spherical.mixture.variances[:, :, :1].contiguous()
    )
    times = interleaved(
        {
            "both": problem.run(attention.gma, False, True),
            "causal": problem.run(attention.gma, True, True),
            "tied": tied.run(attention.gma, False, True),
            "spherical": spherical.run(attention.gma, False, True),
            "linear": problem.run(attention.linear, False, True),
            "careful": problem.run(attention.careful, False, True),
            "careful causal": problem.run(attention.careful, True, True),
        },
        rounds,
    )
    return [
        ratio("careful PyTorch, bidirectional, N=8192", 2, times["careful"], times["both"]),
        ratio("careful PyTorch, causal, N=8192", 2, times["careful causal"], times["causal"]),
        ratio("diag over tied variances, N=8192", None, times["both"], times["tied"]),
        ratio("diag over spherical variances, N=8192", None, times["both"], times["spherical"]),
        ratio("PyTorch linear attention (elu + 1), bidirectional, N=8192", None, times["linear"],
              times["both"], detail="a cheaper operator: 4ND^2 a head"),
    ]


def sdpa_figures(rounds: int) -> list[Figure]:
    goals = {(512, False): 1.2, (1024, False): 2.4, (8192, False): 18.0,
             (1024, True): 1.0, (2048, True): 2.0, (8192, True): 8.0}
    figures = []
    for (tokens, causal), goal in goals.items():
        problem = Problem(tokens)
        times = interleaved(
            {
                "gma": problem.run(attention.gma, causal, True),
                "sdpa": problem.run(attention.sdpa, causal, True),
            },
            rounds if tokens > 4096 else 4 * rounds,
        )
        kind = "causal" if causal else "bidirectional"
        figures.append(
            ratio(f"SDPA, {kind}, forward + backward, N={tokens}", goal, times["sdpa"],
                  times["gma"], detail=f"{times['gma'].best * 1e3:.1f} ms against "
                                       f"{times['sdpa'].best * 1e3:.1f} ms")
        )
    return figures


def plain_figure(rounds: int) -> list[Figure]:
    problem = Problem(4096, heads=4, components=64)
    times = interleaved(
        {
            "gma": problem.run(attention.gma, True, True),
            "plain": problem.run(attention.plain, True, True),
        },
        max(2, rounds // 2),
    )
    return [ratio("plain PyTorch, causal, H=4, K=64, N=4096", 80, times["plain"], times["gma"])]


def thread_figure(rounds: int) -> list[Figure]:
    """Beside the same of sgemm: virtual cores may be threads of one real core, and then nothing gains
    much from the second."""
    problem = Problem(131072, heads=1)
    threads = torch.get_num_threads()
    runs = {"bidirectional": problem.run(attention.gma, False, True),
            "causal": problem.run(attention.gma, True, True), "sgemm": sgemm()}

    times = interleaved({f"{name}, {count}": with_threads(count, run)
                         for name, run in runs.items() for count in (1, threads)}, rounds)
    figures = []
    for name in runs:
        goal = None if name == "sgemm" else 0.85
        what = "sgemm, 2048^3" if name == "sgemm" else f"B=H=1, N=131072, {name}"
        figures.append(ratio(f"parallel efficiency of {threads} threads: {what}", goal,
                             times[f"{name}, 1"], times[f"{name}, {threads}"], 1 / threads))
    return figures


def scaling_figure(rounds: int, longest: int) -> list[Figure]:
    """Time per token at 8192 tokens over that at `longest`: 1 is linear."""
    figures = []
    for causal in (False, True):
        runs = {str(n): Problem(n, heads=1).run(attention.gma, causal, True)
                for n in (8192, longest)}
        times = interleaved(runs, rounds)
        kind = "causal" if causal else "bidirectional"
        figures.append(ratio(f"time per token, N=8192 over N={longest}, H=1, {kind}", 0.9,
                             times["8192"], times[str(longest)], longest / 8192))
    return figures


def half_figure(rounds: int) -> list[Figure]:
    single, half = Problem(8192), Problem(8192, dtype=torch.bfloat16)
    times = interleaved(
        {
            "fp32": single.run(attention.gma, False, True),
            "bf16": half.run(attention.gma, False, True),
        },
        rounds,
    )
    return [ratio("bfloat16 against float32, forward + backward, N=8192", 1.0, times["fp32"],
                  times["bf16"])]


def step_figure(kernels: Path) -> list[Figure]:
    """From the C++ benchmark: the step, and reading what it must read from cache."""
    command = [kernels, "--benchmark_filter=^step", "--benchmark_repetitions=5",
               "--benchmark_format=json"]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    times: dict[str, list[float]] = {}
    for entry in report["benchmarks"]:
        if entry["run_type"] == "iteration":
            times.setdefault(entry["run_name"], []).append(entry["real_time"])
    timing = {name: Timing(min(t), sorted(t)[len(t) // 2], max(t)) for name, t in times.items()}
    step = timing["step/heads:8/real_time"]
    return [ratio("decoding step, B=1: time to read its data over its time", 0.5,
                  timing["step_data/real_time"], step, detail=f"{step.best / 1e3:.1f} us a step")]


def memory_figures() -> list[Figure]:
    """A million tokens, each in a process of its own: the peak beside inputs, outputs and gradients,
    as a share of them, for one head; and all that the process holds, for four."""

    def measure(causal: bool, heads: int) -> dict[str, float]:
        command = [sys.executable, "-m", "peers.memory", str(2**20), str(int(causal)), str(heads)]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    figures = []
    for causal in (False, True):
        kind = "causal" if causal else "bidirectional"
        share = measure(causal, 1)["share"]
        figures.append(Figure(f"0.15 over the share of extra memory, N=1048576, H=1, {kind}", 1.0,
                              0.15 / share, 0.15 / share, 0.15 / share, f"{share:.1%} of the data"))
        peak = measure(causal, 4)["peak"] / 1e9
        figures.append(Figure(f"12 GB over the peak of the process, N=1048576, H=4, {kind}", 1.0,
                              12 / peak, 12 / peak, 12 / peak, f"{peak:.2f} GB"))
    return figures


def as_json(figures: list[Figure]) -> list[dict[str, object]]:
    return [asdict(figure) for figure in figures]
