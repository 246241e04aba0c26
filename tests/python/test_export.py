# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""torch.export, and AOTInductor packages that run without Python."""

import os
import subprocess

import pytest
import torch
from support import assert_close

from gma_torch import GmaConfig, GmaForCausalLM, GmaForSequenceClassification

RUNNER = os.environ.get("GMA_NATIVE_RUNNER")


def make(kind, **options):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "hidden_size": 16, "num_layers": 1, "num_components": 4}
    return kind(GmaConfig(**(sizes | {"use_short_conv": True} | options))).eval()


def export(model, tokens, **inputs):
    length = torch.export.Dim("length", min=2, max=4096)
    shapes = {"tokens": {1: length}} | {name: {1: length} for name in inputs}
    return torch.export.export(model, (tokens,), inputs, dynamic_shapes=shapes)


def test_an_exported_program_takes_any_length(tmp_path):
    model = make(GmaForCausalLM, is_causal=True)
    program = export(model, torch.randint(30, (2, 9)))
    calls = [str(node.target) for node in program.graph.nodes if "gma" in str(node.target)]
    assert calls == ["gma.gaussian_mixture_attention.default"]
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    for length in (9, 300):
        tokens = torch.randint(30, (2, length))
        assert_close(loaded(tokens), model(tokens), 2e-5)


def test_dropout_draws_anew_in_each_call():
    model = make(GmaForCausalLM, is_causal=True, attention_dropout=0.5).train()
    tokens = torch.randint(30, (2, 9))
    module = torch.export.export(model, (tokens,)).module()
    torch.manual_seed(3)
    first, second = module(tokens), module(tokens)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert_close(model(tokens), first, 2e-5)


def test_a_padding_mask_is_an_input():
    model = make(GmaForSequenceClassification, num_classes=3)
    tokens, mask = torch.randint(30, (2, 9)), torch.ones(2, 9, dtype=torch.bool)
    mask[0, 5:] = False
    module = export(model, tokens, padding_mask=mask).module()
    assert_close(module(tokens, padding_mask=mask), model(tokens, padding_mask=mask), 2e-5)


@pytest.mark.slow
@pytest.mark.skipif(not RUNNER, reason="GMA_NATIVE_RUNNER names no program")
def test_a_package_runs_from_cpp(tmp_path):
    model = make(GmaForCausalLM, is_causal=True)
    program = export(model, torch.randint(30, (2, 9)))
    package = tmp_path / "model.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    for length in (9, 70):
        tokens = torch.randint(30, (2, length))
        torch.save(tokens, tmp_path / "tokens.pt")
        command = [RUNNER, "package", "model.pt2", "tokens.pt", "logits.pt"]
        subprocess.run(command, cwd=tmp_path, check=True)
        assert_close(torch.load(tmp_path / "logits.pt"), model(tokens), 2e-5)
