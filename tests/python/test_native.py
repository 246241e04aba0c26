# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The same weights in Python and in C++: logits bit by bit, and what the gma program says of them."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch

from gma_torch import (
    Checkpoint,
    GmaConfig,
    GmaForCausalLM,
    GmaForSequenceClassification,
    load_checkpoint,
    save_checkpoint,
)

RUNNER, PROGRAM = os.environ.get("GMA_NATIVE_RUNNER"), os.environ.get("GMA_BINARY")
needs_runner = pytest.mark.skipif(not RUNNER, reason="GMA_NATIVE_RUNNER names no program")
needs_program = pytest.mark.skipif(not PROGRAM, reason="GMA_BINARY names no program")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

CONFIGS = {
    "default": {},
    "short_conv_grouped": {"use_short_conv": True, "num_key_value_heads": 2},
    "learned_positions": {
        "use_rotary": False,
        "learned_positions": True,
        "max_length": 70,
        "tie_embeddings": False,
    },
    "sinusoidal_first": {
        "use_rotary": False,
        "sinusoidal_positions": True,
        "pooling": "first",
    },
    "tied": {"covariance_type": "tied", "mlp_size": 24, "short_conv_width": 2},
    "spherical": {"covariance_type": "spherical", "use_short_conv": True, "eps": 1e-3},
}


def make_model(**options):
    torch.manual_seed(0)
    fields = {"hidden_size": 32, "num_layers": 2, "num_components": 6} | options
    config = GmaConfig(**fields)
    return (GmaForCausalLM if config.is_causal else GmaForSequenceClassification)(config).eval()


@needs_runner
@pytest.mark.parametrize("is_causal", [True, False], ids=["lm", "classifier"])
@pytest.mark.parametrize("options", CONFIGS.values(), ids=CONFIGS.keys())
def test_logits_have_the_bits_of_cpp(options, is_causal, tmp_path):
    model = make_model(is_causal=is_causal, num_classes=0 if is_causal else 3, **options)
    tokens = torch.randint(256, (2, 65))
    save_checkpoint(tmp_path / "model.safetensors", Checkpoint(model))
    torch.save(tokens, tmp_path / "tokens.pt")
    command = [RUNNER, "logits", "model.safetensors", "tokens.pt", "logits.pt"]
    subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=True)
    with torch.inference_mode():
        assert torch.equal(model(tokens), torch.load(tmp_path / "logits.pt"))


def program(*arguments: object) -> str:
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(
        command, env=ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"line {i * i % 97} of a small text, it says\n" for i in range(60)))
    return path


def loss_of(model: GmaForCausalLM, text: Path, context: int) -> float:
    """Mean loss over windows of `context` tokens, as gma eval takes it."""
    tokens, total = torch.tensor(list(text.read_bytes())), 0.0
    with torch.inference_mode():
        for begin in range(0, len(tokens) - 1, context):
            target = tokens[begin + 1 : begin + 1 + context]
            logits = model(tokens[begin : begin + len(target)].unsqueeze(0))[0]
            total += torch.nn.functional.cross_entropy(logits.double(), target, reduction="sum")
    return float(total) / (len(tokens) - 1)


@needs_program
def test_loads_what_the_program_trained(text, tmp_path):
    options = (
        "--layers=1 --hidden-size=16 --heads=2 --components=4 --context=32 --batch-size=2 "
        "--steps=4 --warmup=1 --threads=1"
    )
    program("train", "lm", "--data", text, "--out", tmp_path / "run", *options.split())
    figures = json.loads(program("eval", tmp_path / "run", "--data", text, "--json", "--threads=1"))
    checkpoint = load_checkpoint(tmp_path / "run")
    assert checkpoint.tokenizer == "bytes" and checkpoint.training_config["context"] == 32
    assert math.isclose(loss_of(checkpoint.model, text, 32), figures["loss"], rel_tol=1e-7)

    # And back, as it came.
    save_checkpoint(tmp_path / "again.safetensors", checkpoint)
    again = program("eval", tmp_path / "again.safetensors", "--data", text, "--json", "--threads=1")
    assert json.loads(again) == figures


@needs_program
def test_the_program_evaluates_what_python_saved(text, tmp_path):
    model = make_model(is_causal=True, use_short_conv=True)
    file = tmp_path / "model.safetensors"
    save_checkpoint(file, Checkpoint(model, training_config={"context": 64}))
    figures = json.loads(program("eval", file, "--data", text, "--json", "--threads=1"))
    assert math.isclose(loss_of(model, text, 64), figures["loss"], rel_tol=1e-7)
    assert json.loads(program("info", file, "--json"))


def corrupt(tmp_path: Path, **changes) -> Path:
    """A checkpoint with other metadata or tensors; None leaves a tensor out."""
    import safetensors
    import safetensors.torch

    file = tmp_path / "model.safetensors"
    save_checkpoint(file, Checkpoint(make_model(is_causal=True)))
    with safetensors.safe_open(file, "pt") as opened:
        metadata = opened.metadata() | changes.pop("metadata", {})
    tensors = safetensors.torch.load_file(file) | changes
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    safetensors.torch.save_file(kept, file, metadata)
    return file


def sized(**changes) -> dict[str, str]:
    fields = {"hidden_size": 32, "num_layers": 2, "num_components": 6, "is_causal": True} | changes
    return {"model_config": json.dumps(fields)}


REFUSALS = {
    "format: expected 'gma-checkpoint', got pt": {"metadata": {"format": "pt"}},
    "format_version: expected '1', got 2": {"metadata": {"format_version": "2"}},
    "task: expected 'lm' or 'classify', got x": {"metadata": {"task": "x"}},
    "config: expected JSON": {"metadata": {"model_config": "{"}},
    "mixer: expected 'gma' .*, got 'mamba'": {"metadata": {"model_config": '{"mixer": "mamba"}'}},
    "hidden_size: expected int, got str": {"metadata": {"model_config": '{"hidden_size": "a"}'}},
    "metadata 'progress': expected a JSON object, got 3": {"metadata": {"progress": "3"}},
    "tensor 'transformer.norm.weight': expected torch.float32 of shape .32., got None": {
        "model.transformer.norm.weight": None
    },
    "tensor 'transformer.norm.bias': expected torch.float32 of shape .32., got .* .3.": {
        "model.transformer.norm.bias": torch.zeros(3)
    },
    "tensors: expected those of this model only, got extra": {"model.extra": torch.zeros(1)},
    # Hostile ones: no memory and no time is spent on what the file does not hold.
    "tensor 'transformer.embedding.weight': expected .* of shape .256, 1099511627776.": {
        "metadata": sized(hidden_size=2**40)
    },
    "tensor 'transformer.blocks.0.up.weight': expected .* of shape .1099511627776, 32.": {
        "metadata": sized(mlp_size=2**40)
    },
    "tensor 'transformer.blocks.0.mixer.q_conv.weight': .* of shape .32, 1099511627776., got None": {
        "metadata": sized(use_short_conv=True, short_conv_width=2**40)
    },
    "tensor 'transformer.positions.weight': expected .*, got None": {
        "metadata": sized(learned_positions=True, max_length=2**70)
    },
    "num_layers: expected 2 as of the tensors, got 1000000000": {
        "metadata": sized(num_layers=10**9)
    },
    "rotary_base: expected a float, got an int beyond": {"metadata": sized(rotary_base=10**400)},
    "config: expected JSON, got text with an error: maximum recursion": {
        "metadata": {"model_config": "[" * 200000}
    },
    "metadata 'training_config': expected a JSON object": {
        "metadata": {"training_config": "[" * 200000}
    },
}


@pytest.mark.parametrize("message", REFUSALS)
def test_a_checkpoint_that_does_not_fit_is_refused(message, tmp_path):
    file = corrupt(tmp_path, **REFUSALS[message])
    with pytest.raises(ValueError, match=f"^{file}: {message}"):
        load_checkpoint(file)


def test_what_could_not_be_loaded_is_not_written(tmp_path):
    model, file = make_model(is_causal=True), tmp_path / "model"
    refusals = [
        (Checkpoint(make_model(is_causal=True).bfloat16()), "model: expected weights in torch.float32"),
        (Checkpoint(make_model(is_causal=True).double()), "model: expected weights in torch.float32"),
        (Checkpoint(GmaForCausalLM(model.config, device="meta")), "model: .* in the meta device"),
        (Checkpoint(torch.nn.Linear(2, 2)), "model: expected a GmaForCausalLM or .*, got a Linear"),
        (Checkpoint(model, tokenizer="bpe"), "tokenizer: expected 'bytes' or .*, got bpe"),
        (Checkpoint(model, tokenizer="words"), "tokenizer_model: expected bytes with .* 'words'"),
        (Checkpoint(model, tokenizer_model=b"x"), "tokenizer_model: expected no bytes"),
        (Checkpoint(model, progress={"a": {1}}), "progress: expected values of JSON"),
        (Checkpoint(model, training_config={"a": math.nan}), "training_config: expected values"),
    ]
    for checkpoint, message in refusals:
        with pytest.raises((ValueError, TypeError), match=rf"^checkpoint\.{message}"):
            save_checkpoint(file, checkpoint)
    assert not file.exists()
    compiled = torch.compile(model)
    save_checkpoint(file, Checkpoint(compiled, "words", b"one two"))
    loaded = load_checkpoint(file)
    assert type(loaded.model) is GmaForCausalLM and loaded.tokenizer_model == b"one two"


def test_what_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "text").write_text("no tensors")
    save_checkpoint(tmp_path / "lm", Checkpoint(make_model(is_causal=True)))
    refusals = [
        (load_checkpoint, "absent", "expected a file or folder"),
        (load_checkpoint, "", "expected a folder with best.safetensors or last.safetensors"),
        (load_checkpoint, "text", "expected a safetensors file, got an error"),
        (
            GmaForSequenceClassification.from_checkpoint,
            "lm",
            "expected a GmaForSequenceClassification, got a GmaForCausalLM",
        ),
    ]
    for load, name, message in refusals:
        with pytest.raises(ValueError, match=f"{message}"):
            load(tmp_path / name)
