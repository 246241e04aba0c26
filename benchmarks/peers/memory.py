# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Prints, as JSON, what forward + backward takes: `share`, its peak beside inputs, outputs and
gradients over their size, and `peak`, all that the process held, in bytes.

Usage: python -m peers.memory TOKENS CAUSAL HEADS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from peers import attention


def status(field: str) -> int:
    """Bytes, from /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise KeyError(field)


def measure(tokens: int, causal: bool, heads: int, size: int = 64) -> dict[str, float]:
    mixture = attention.make_mixture(heads, 128, size)
    warm_up = [torch.randn(1, 64, heads, size, requires_grad=True) for _ in range(3)]
    attention.gma(*warm_up, mixture, causal).sum().backward()

    inputs = [torch.randn(1, tokens, heads, size, requires_grad=True) for _ in range(3)]
    upstream = torch.randn(1, tokens, heads, size)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # Starts the peak anew.
    attention.gma(*inputs, mixture, causal).backward(upstream)
    peak = status("VmHWM")
    one = upstream.numel() * upstream.element_size()
    # Of the eight arrays (q, k, v, o and their gradients) four come to life after `before`.
    return {"share": (peak - before - 4 * one) / (8 * one), "peak": peak}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2] == "1", int(sys.argv[3]))))
