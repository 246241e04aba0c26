# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""A model whose components were put on the categories of its tokens by hand."""

from pathlib import Path

import numpy as np
from conftest import gma_ok
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

TEXT = "A1, B22; C333. D4: E55! F6, 77 G\n" * 60
CATEGORIES = ("capitalised", "digit", "punctuation", "other")
SHAPE = (
    "--layers=2 --hidden-size=16 --heads=2 --components=4 --no-use-short-conv --no-rotary "
    "--context=32 --batch-size=2 --steps=1 --warmup=1 --threads=1"
).split()


def category_of(byte: int) -> int:
    character = chr(byte)
    if character.isspace():
        return 3
    return 0 if character.isalpha() else 1 if character.isdigit() else 2


def planted_run(folder: Path) -> tuple[Path, Path]:
    """The checkpoint, and the text that it fits."""
    text = folder / "planted.txt"
    text.write_text(TEXT)
    gma_ok("train", "lm", "--data", text, "--out", folder / "run", *SHAPE)
    with safe_open(folder / "run" / "last.safetensors", "np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata()
    del metadata["crc32"]
    tensors = {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}

    # A token's embedding is its category's axis, which the norm keeps and the projections hand to
    # every head; the means lie where that comes out.
    tensors["model.transformer.embedding.weight"] = np.eye(16, dtype=np.float32)[
        [category_of(byte) for byte in range(256)]
    ]
    axes = np.eye(16)[:4] - 1 / 16
    normed = axes / axes.std(axis=1, keepdims=True)
    for layer in range(2):
        prefix = f"model.transformer.blocks.{layer}."
        projection = np.zeros((16, 16), np.float32)
        for head in range(2):
            projection[8 * head : 8 * head + 4, :4] = np.eye(4)
        means = np.zeros((2, 4, 8), np.float32)
        means[:, :, :4] = normed[:, :4]
        tensors[prefix + "mixer.q_proj.weight"] = projection
        tensors[prefix + "mixer.k_proj.weight"] = projection.copy()
        tensors[prefix + "mixer.o_proj.weight"] = np.zeros((16, 16), np.float32)
        tensors[prefix + "mixer.means"] = means
        tensors[prefix + "mixer.raw_variances"] = np.full((2, 4, 8), -3.0, np.float32)
        tensors[prefix + "mixer.prior_logits"] = np.zeros((2, 4), np.float32)
        for name in ("up.weight", "down.weight", "up.bias", "down.bias"):
            tensors[prefix + name] = np.zeros_like(tensors[prefix + name])
    save_file(tensors, folder / "planted.safetensors", metadata)
    return folder / "planted.safetensors", text


def changed(checkpoint: Path, name: str, end: str, value: float) -> Path:
    """A copy, beside it, with `value` throughout the tensors whose names have this end."""
    with safe_open(checkpoint, "np") as file:
        metadata = file.metadata()
    metadata.pop("crc32", None)
    tensors = load_file(checkpoint)
    assert any(tensor.endswith(end) for tensor in tensors)
    copy = checkpoint.with_name(name)
    save_file({tensor: np.full_like(values, value) if tensor.endswith(end) else values
               for tensor, values in tensors.items()}, copy, metadata)
    return copy
