# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Trains a small language model on the bytes of a text, in plain PyTorch, and lets it go on with a
prompt. The checkpoint is one of the gma program: gma eval, gma generate and gma info read it."""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

import gma_torch

CONTEXT, BATCH = 128, 8


def draw_batch(text: Tensor) -> tuple[Tensor, Tensor]:
    starts = torch.randint(len(text) - CONTEXT, (BATCH,))
    rows = torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


@torch.inference_mode()
def generate(model: gma_torch.GmaForCausalLM, prompt: str, count: int) -> str:
    state = model.initial_state(batch_size=1)
    tokens = torch.tensor([list(prompt.encode())])
    generated = []
    for _ in range(count):
        probabilities = model(tokens, state=state)[0, -1].softmax(-1)
        tokens = torch.multinomial(probabilities, 1).view(1, 1)
        generated.append(int(tokens))
    return prompt + bytes(generated).decode(errors="replace")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("model.safetensors"))
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    text = torch.tensor(list(options.text.read_bytes()))
    model = gma_torch.GmaForCausalLM(
        gma_torch.GmaConfig(
            hidden_size=64, num_layers=2, num_components=16, is_causal=True, use_short_conv=True
        )
    )
    decayed, kept = gma_torch.parameter_groups(model)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": kept, "weight_decay": 0.0}],
        lr=3e-3,
        betas=(0.9, 0.98),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=options.steps)
    progress = tqdm(range(options.steps), unit="step")
    losses = []
    for _ in progress:
        tokens, targets = draw_batch(text)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        progress.set_postfix(loss=f"{losses[-1]:.3f}")

    model.eval()
    checkpoint = gma_torch.Checkpoint(model, training_config={"context": CONTEXT})
    gma_torch.save_checkpoint(options.out, checkpoint)
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}, saved in {options.out}")
    print(generate(model, "The ", 80))


if __name__ == "__main__":
    main()
