# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Draws which component each token of a text writes itself into: one picture of a trained model's
layer, one row a component."""

import argparse
from pathlib import Path

import matplotlib
import torch

import gma_torch

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of backend)


@torch.inference_mode()
def key_responsibilities(
    model: gma_torch.GmaForCausalLM, tokens: torch.Tensor, layer: int
) -> torch.Tensor:
    """(T, H, K) of one text, from what reaches the layer."""
    block = model.transformer.blocks[layer]
    reached: list[torch.Tensor] = []
    handle = block.mixer.register_forward_pre_hook(lambda _, inputs: reached.append(inputs[0]))
    model(tokens)
    handle.remove()
    return block.mixer.responsibilities(reached[0])[1][0]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="checkpoint of gma; without it, random weights")
    parser.add_argument("--text", default="The quick brown fox jumps over the lazy dog.")
    parser.add_argument("--layer", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("responsibilities.png"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    if options.model:
        model = gma_torch.GmaForCausalLM.from_checkpoint(options.model)
    else:
        config = gma_torch.GmaConfig(hidden_size=64, num_components=16, is_causal=True)
        model = gma_torch.GmaForCausalLM(config).eval()
    tokens = torch.tensor([list(options.text.encode())])
    gamma = key_responsibilities(model, tokens, options.layer)

    heads = gamma.size(1)
    figure, axes = plt.subplots(heads, 1, figsize=(0.18 * len(gamma) + 2, 1.6 * heads), sharex=True)
    for head, axis in enumerate(axes if heads > 1 else [axes]):
        image = axis.imshow(gamma[:, head].T.numpy(), aspect="auto", cmap="magma", vmin=0)
        axis.set_ylabel(f"head {head}")
        figure.colorbar(image, ax=axis)
    axis.set_xticks(range(len(gamma)), list(options.text.encode().decode("latin-1")))
    figure.suptitle(f"Responsibilities of the components in layer {options.layer}")
    figure.savefig(options.out, bbox_inches="tight")
    plt.close(figure)
    print(f"{len(gamma)} tokens, {gamma.size(2)} components a head: {options.out}")


if __name__ == "__main__":
    main()
