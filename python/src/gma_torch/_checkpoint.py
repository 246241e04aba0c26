# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the `gma` program: safetensors files with the weights as `model.*`, and in their
metadata the model's config and its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gma_torch._config import GmaConfig
from gma_torch._models import GmaForCausalLM, GmaForSequenceClassification
from gma_torch._version import __version__

_FORMAT = {"format": "gma-checkpoint", "format_version": "1"}
_PREFIX = "model."
_TOKENIZER_MODEL = "tokenizer.model"
_TASKS: dict[str, type[GmaForCausalLM] | type[GmaForSequenceClassification]] = {
    "lm": GmaForCausalLM,
    "classify": GmaForSequenceClassification,
}
_TOKENIZERS = {"bytes": False, "sentencepiece": True, "words": True, "listops": False}
"""Whether each needs a tokenizer_model."""
_Model = TypeVar("_Model", bound=nn.Module)


@dataclass
class Checkpoint:
    """A model, and what the `gma` program wants to know beside it."""

    model: GmaForCausalLM | GmaForSequenceClassification
    tokenizer: str = "bytes"
    """`"bytes"`, `"sentencepiece"`, `"words"` or `"listops"`."""
    tokenizer_model: bytes = b""
    """A serialised SentencePiece model, or the words."""
    training_config: dict[str, Any] = field(default_factory=dict)
    """Options of `gma train`; `gma eval` reads `context` unless told it by `--context`."""
    progress: dict[str, Any] = field(default_factory=dict)


def load_checkpoint(
    path: str | PathLike[str], *, device: torch.device | str | None = None
) -> Checkpoint:
    """Reads what `gma train` wrote: a file, or the folder of a run, of which it takes the best
    model. The model is in evaluation mode, and gives the same bits as in the program.

    Raises:
        ValueError: naming the file and what is wrong with it; for a model of another mixer as well.
        ImportError: without the package safetensors.
    """
    file = _find(Path(path))
    metadata, tensors = _read(file)
    try:
        for key, expected in _FORMAT.items():
            _expect(metadata.get(key) == expected, key, repr(expected), metadata.get(key))
        task = metadata.get("task")
        _expect(task in _TASKS, "task", " or ".join(map(repr, _TASKS)), task)
        config = GmaConfig.from_json(_text(metadata, "model_config"))
        weights = {
            name.removeprefix(_PREFIX): tensor
            for name, tensor in tensors.items()
            if name.startswith(_PREFIX)
        }
        _check_sizes(config, weights, task == "classify")
        model = _TASKS[str(task)](config, device="meta")
        _assign(model, weights, torch.get_default_device() if device is None else device)
        return Checkpoint(
            model.eval(),
            _text(metadata, "tokenizer"),
            bytes(tensors[_TOKENIZER_MODEL].numpy()) if _TOKENIZER_MODEL in tensors else b"",
            _json(metadata, "training_config"),
            _json(metadata, "progress"),
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error


def save_checkpoint(path: str | PathLike[str], checkpoint: Checkpoint) -> None:
    """Writes a file that the `gma` program evaluates, generates from and inspects.

    Raises:
        ValueError, TypeError: for what could not be loaded again: models and tokenizers of other
            kinds, weights that are not float32, options that are not JSON. Nothing is written then.
        ImportError: without the package safetensors.

    >>> import tempfile
    >>> config = GmaConfig(hidden_size=32, num_components=8, is_causal=True)
    >>> model = GmaForCausalLM(config).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_checkpoint(f"{folder}/model.safetensors", Checkpoint(model))
    ...     loaded = GmaForCausalLM.from_checkpoint(f"{folder}/model.safetensors")
    >>> tokens = torch.randint(256, (1, 5))
    >>> torch.equal(loaded(tokens), model(tokens))
    True
    """
    safetensors_torch = _import_safetensors()
    model = _savable_model(checkpoint.model)
    _check_tokenizer(checkpoint)
    tensors = {
        _PREFIX + name: tensor.detach().cpu().contiguous()
        for name, tensor in model.state_dict().items()
    }
    if checkpoint.tokenizer_model:
        stored = torch.frombuffer(bytearray(checkpoint.tokenizer_model), dtype=torch.uint8)
        tensors[_TOKENIZER_MODEL] = stored
    metadata = {
        **_FORMAT,
        "gma_version": __version__,
        "task": "lm" if isinstance(model, GmaForCausalLM) else "classify",
        "tokenizer": checkpoint.tokenizer,
        "model_config": model.config.to_json(),
        "training_config": _to_json("training_config", checkpoint.training_config),
        "progress": _to_json("progress", checkpoint.progress),
    }
    safetensors_torch.save_file(tensors, path, metadata)


def _savable_model(model: nn.Module) -> GmaForCausalLM | GmaForSequenceClassification:
    """The model, out of torch.compile() if it is inside."""
    inner = getattr(model, "_orig_mod", model)
    kinds = tuple(_TASKS.values())
    if not isinstance(inner, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"checkpoint.model: expected a {names}, got a {type(inner).__name__}")
    for name, tensor in inner.state_dict().items():
        place = "the meta device" if tensor.is_meta else tensor.dtype
        _expect(
            tensor.dtype == torch.float32 and not tensor.is_meta,
            "checkpoint.model",
            "weights in torch.float32, as model.float() makes them",
            f"{name} in {place}",
        )
    return inner


def _check_tokenizer(checkpoint: Checkpoint) -> None:
    kind = checkpoint.tokenizer
    _expect(kind in _TOKENIZERS, "checkpoint.tokenizer", " or ".join(map(repr, _TOKENIZERS)), kind)
    needs_model = _TOKENIZERS[kind]
    _expect(
        isinstance(checkpoint.tokenizer_model, bytes)
        and bool(checkpoint.tokenizer_model) == needs_model,
        "checkpoint.tokenizer_model",
        f"{'bytes' if needs_model else 'no bytes'} with tokenizer {kind!r}",
        f"a {type(checkpoint.tokenizer_model).__name__} of {len(checkpoint.tokenizer_model)}",
    )


def _to_json(name: str, value: object) -> str:
    _expect(isinstance(value, dict), f"checkpoint.{name}", "a dict", type(value).__name__)
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"checkpoint.{name}: expected values of JSON, got an error: {error}") from error


def load_model(
    path: str | PathLike[str], kind: type[_Model], device: torch.device | str | None
) -> _Model:
    """The model of a checkpoint, which must be of this kind."""
    model = load_checkpoint(path, device=device).model
    if not isinstance(model, kind):
        raise ValueError(f"{path}: expected a {kind.__name__}, got a {type(model).__name__}")
    return model


def _find(path: Path) -> Path:
    if not path.exists():
        raise ValueError(f"{path}: expected a file or folder, got a name without one")
    if not path.is_dir():
        return path
    names = ("best.safetensors", "last.safetensors")
    for name in names:
        if (path / name).exists():
            return path / name
    raise ValueError(f"{path}: expected a folder with {' or '.join(names)}, got one without")


def _import_safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            "gma_torch: checkpoints need the package safetensors: pip install safetensors"
        ) from error
    return safetensors.torch


def _read(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    _import_safetensors()
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            return opened.metadata() or {}, tensors
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{file}: expected a safetensors file, got an error: {error}") from error


def _check_sizes(config: GmaConfig, weights: Mapping[str, Tensor], is_classifier: bool) -> None:
    """Sizes of the config against tensors that are there, so that a model is only built where it is
    about as large as its file."""
    layers = {name.split(".")[2] for name in weights if name.startswith("transformer.blocks.")}
    _expect(len(layers) == config.num_layers, "num_layers", f"{len(layers)} as of the tensors", config.num_layers)
    hidden, heads = config.hidden_size, config.key_value_heads
    shapes = {
        "transformer.embedding.weight": [config.vocab_size, hidden],
        "transformer.blocks.0.up.weight": [config.mlp_size or 4 * hidden, hidden],
        "transformer.blocks.0.mixer.means": [heads, config.num_components, config.head_size],
    }
    if config.use_short_conv:
        shapes["transformer.blocks.0.mixer.q_conv.weight"] = [hidden, config.short_conv_width]
    if config.learned_positions:
        shapes["transformer.positions.weight"] = [config.max_length, hidden]
    if is_classifier:
        shapes["head.weight"] = [config.num_classes, hidden]
    for name, shape in shapes.items():
        _expect_tensor(name, weights.get(name), torch.float32, shape)


def _expect_tensor(name: str, found: Tensor | None, dtype: torch.dtype, shape: list[int]) -> None:
    _expect(
        found is not None and found.dtype == dtype and list(found.shape) == shape,
        f"tensor {name!r}",
        f"{dtype} of shape {shape}",
        None if found is None else f"{found.dtype} of shape {list(found.shape)}",
    )


def _assign(
    model: nn.Module, weights: Mapping[str, Tensor], device: torch.device | str
) -> None:
    """Gives a model on the meta device its weights; nothing is allocated for those that do not
    fit."""
    wanted = model.state_dict()
    for name, tensor in wanted.items():
        _expect_tensor(name, weights.get(name), tensor.dtype, list(tensor.shape))
    for name in weights:
        _expect(name in wanted, "tensors", "those of this model only", name)
    moved = {name: tensor.to(device) for name, tensor in weights.items()}
    model.load_state_dict(moved, assign=True)


def _expect(good: bool, name: str, expected: str, value: object) -> None:
    if not good:
        raise ValueError(f"{name}: expected {expected}, got {value}")


def _text(metadata: Mapping[str, str], name: str) -> str:
    _expect(name in metadata, f"metadata {name!r}", "text", None)
    return metadata[name]


def _json(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        value = json.loads(_text(metadata, name))
    except (ValueError, RecursionError):
        value = None
    _expect(isinstance(value, dict), f"metadata {name!r}", "a JSON object", metadata[name][:200])
    return dict(value)
