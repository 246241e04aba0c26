# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Classifies long documents, read as a whole. The class of each is how often one of a few key words
occurs among thousands that mean nothing, so no short piece of it would do."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

import gma_torch

VOCABULARY, KEYS, PADDING = 64, (1, 2), 0


def make_documents(count: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens (count, length), which of them are kept, and classes: the more frequent key word."""
    tokens = torch.randint(3, VOCABULARY, (count, length))
    lengths = torch.randint(length // 2, length + 1, (count,))
    classes = torch.randint(2, (count,))
    for row, (size, label) in enumerate(zip(lengths.tolist(), classes.tolist())):
        places = torch.randperm(size)[: size // 8]
        often, seldom = KEYS[label], KEYS[1 - label]
        tokens[row, places] = torch.where(torch.rand(len(places)) < 0.7, often, seldom)
    kept = torch.arange(length) < lengths.unsqueeze(1)
    return tokens.masked_fill(~kept, PADDING), kept, classes


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    model = gma_torch.GmaForSequenceClassification(
        gma_torch.GmaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_layers=1,
            num_heads=2,
            num_components=16,
            num_classes=2,
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in tqdm(range(options.steps), unit="step"):
        tokens, kept, classes = make_documents(8, options.length)
        loss = F.cross_entropy(model(tokens, padding_mask=kept), classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.inference_mode():
        tokens, kept, classes = make_documents(32, options.length)
        accuracy = (model(tokens, padding_mask=kept).argmax(-1) == classes).float().mean()
    print(f"accuracy {accuracy:.2f} on new documents of up to {options.length} tokens")


if __name__ == "__main__":
    main()
