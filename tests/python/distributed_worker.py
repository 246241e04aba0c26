# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""One of several processes that train a model together: distributed_worker.py WAY RANK RANKS FOLDER.
Each takes its share of the same batch; the first saves losses, gradients and weights."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import gma_torch

STEPS = 3


def make_model() -> gma_torch.GmaForCausalLM:
    torch.manual_seed(0)
    return gma_torch.GmaForCausalLM(
        gma_torch.GmaConfig(
            vocab_size=20,
            hidden_size=16,
            num_layers=2,
            num_components=4,
            is_causal=True,
            use_short_conv=True,
        )
    ).double()


def make_tokens() -> torch.Tensor:
    return torch.randint(20, (STEPS, 4, 12), generator=torch.Generator().manual_seed(1))


def train(model: nn.Module, batches: torch.Tensor) -> list[float]:
    decayed, kept = gma_torch.parameter_groups(model)
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}]
    optimizer = torch.optim.SGD(groups, lr=0.5, momentum=0.9)
    losses = []
    for tokens in batches:
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    way, rank, ranks, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks
    )
    plain = make_model()
    model: nn.Module = plain
    if way == "ddp":
        model = nn.parallel.DistributedDataParallel(plain)
    else:
        mesh = dist.device_mesh.init_device_mesh("cpu", (ranks,))
        for block in plain.transformer.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(plain, mesh=mesh)
    losses = train(model, make_tokens().chunk(ranks, 1)[rank])

    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total)
    weights = {
        name: tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        for name, tensor in plain.state_dict().items()
    }
    if rank == 0:
        torch.save((total / ranks, weights), folder / "results.pt")
    # A process that leaves early may take connections with it that another still waits on.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
