# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""A transformer layer of your own, with Gaussian mixture attention where
scaled_dot_product_attention stood. Everything around it stays as it was."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gma_torch


class Attention(nn.Module):
    """Fused projection, attention, output; `kind` is "softmax" or "gma"."""

    def __init__(self, size: int, heads: int, kind: str, components: int = 32) -> None:
        super().__init__()
        self.heads, self.kind = heads, kind
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        if kind == "gma":
            # What the mixture adds: components of each head, over routing vectors of size D.
            head_size = size // heads
            self.means = nn.Parameter(torch.randn(heads, components, head_size))
            self.log_variances = nn.Parameter(
                torch.full((heads, components, head_size), 4 * head_size**0.5).log()
            )
            self.prior_logits = nn.Parameter(torch.zeros(heads, components))

    def forward(self, x: Tensor) -> Tensor:
        # (B, T, H, D) each, slices of one tensor: the operator reads them as they lie.
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        if self.kind == "softmax":
            q, k, v = (each.transpose(1, 2) for each in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        else:
            y, _ = gma_torch.gaussian_mixture_attention(
                q, k, v, self.means, self.log_variances.exp(), self.prior_logits, is_causal=True
            )
        return self.out(y.flatten(2))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1024)
    options = parser.parse_args(arguments)
    torch.manual_seed(0)
    x = torch.randn(1, options.tokens, 128)
    for kind in ("softmax", "gma"):
        layer = Attention(128, 4, kind)
        y = layer(x)
        y.square().mean().backward()
        # Causal: what comes later has no say.
        assert torch.allclose(layer(x[:, :100]), y[:, :100], atol=1e-4)
        print(f"{kind}: {tuple(x.shape)} -> {tuple(y.shape)}, gradients of {len([*layer.parameters()])}")


if __name__ == "__main__":
    main()
