# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Streams a million tokens through a causal layer in constant memory: all that the layer keeps of
what it has read is its state."""

import argparse
import resource
import time

import torch

import gma_torch


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=8192)
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    layer = gma_torch.GaussianMixtureAttention(
        32, 2, num_components=16, is_causal=True, use_rotary=False, use_short_conv=True
    ).eval()
    state = layer.initial_state(batch_size=1)
    size = sum(tensor.numel() * tensor.element_size() for tensor in state.tensors.values())
    began, start = time.perf_counter(), None
    with torch.inference_mode():
        while state.position < options.tokens:
            count = min(options.chunk, options.tokens - state.position)
            layer(torch.randn(1, count, 32), state=state)  # tokens as they come
            if start is None:
                start = peak_megabytes()
    grown = peak_megabytes() - start
    keys_and_values = options.tokens * 2 * 32 * 4
    rate = state.position / (time.perf_counter() - began)
    print(f"{state.position:,} tokens, {rate:,.0f} a second; memory grew by {grown:.0f} MB")
    print(f"state: {size:,} bytes, where a cache of keys and values would be {keys_and_values:,}")
    # Every token has written itself into the components of each head once.
    written = state["z"].sum(-1)
    assert torch.allclose(written, torch.full_like(written, options.tokens), rtol=1e-4)


if __name__ == "__main__":
    main()
