# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""The language model inside Hugging Face's transformers: importing this module registers it with
AutoConfig and AutoModelForCausalLM under the model type `gma`. Needs `pip install
gma_torch[transformers]`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

try:
    from transformers import (
        AutoConfig,
        AutoModelForCausalLM,
        GenerationMixin,
        PreTrainedConfig,
        PreTrainedModel,
    )
    from transformers.utils.generic import ModelOutput
except ImportError as import_error:
    raise ImportError(
        "gma_torch.huggingface needs transformers 5.24 or newer: pip install "
        f"'gma_torch[transformers]'. What came: {import_error}"
    ) from import_error

from gma_torch._checks import has_values
from gma_torch._config import GmaConfig
from gma_torch._models import GmaForCausalLM, GmaTransformer, initialize_module
from gma_torch._state import ModelState

# max_length is an option of generate there, which a config may not have.
_NAMES = {field.name: field.name for field in dataclasses.fields(GmaConfig)} | {
    "max_length": "max_position_embeddings"
}
"""Fields of GmaConfig, and what transformers calls them."""

_OTHERS = "_others"
"""Option under which from_dict() hands over what the fields do not name."""


class GmaPretrainedConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """The fields of `GmaConfig`, where `max_length` is called
    `max_position_embeddings`, and those that every config of transformers has, ids of special tokens
    among them. A misspelt one is refused; what a saved config holds beyond them is kept.

    >>> from transformers import AutoConfig
    >>> config = AutoConfig.for_model("gma", vocab_size=100, hidden_size=32)
    >>> config.is_causal, config.num_hidden_layers
    (True, 4)
    """

    model_type = "gma"
    attribute_map = {"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"}

    def __init__(self, **options: Any) -> None:
        for alias, name in self.attribute_map.items():
            if alias in options:
                options[name] = options.pop(alias)
        given = {name: options.pop(alias) for name, alias in _NAMES.items() if alias in options}
        config = GmaConfig(**({"is_causal": True} | given))
        for name, alias in _NAMES.items():
            setattr(self, alias, getattr(config, name))
        self.use_cache = options.pop("use_cache", True)
        others = options.pop(_OTHERS, {})
        # One matrix serves as embedding and head by itself; there is no second one to tie to it.
        self.tie_word_embeddings = False
        options.pop("tie_word_embeddings", None)
        for name in options:
            if not self._is_common(name):
                raise TypeError(f"config: expected known fields only, got {name!r}")
        super().__init__(**options, **others)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The config of a saved one, which may hold attributes that somebody has set."""
        own = {*_NAMES.values(), *cls.attribute_map, "use_cache", "tie_word_embeddings"}
        fields: dict[str, Any] = {_OTHERS: {}}
        for name, value in config_dict.items():
            is_known = name in own or (cls._is_common(name) and name != _OTHERS)
            (fields if is_known else fields[_OTHERS])[name] = value
        return super().from_dict(fields, **kwargs)

    @staticmethod
    def _is_common(name: str) -> bool:
        """Whether every config of transformers has this field."""
        fields = {field.name for field in dataclasses.fields(PreTrainedConfig)}
        others = "attn_implementation model_type name_or_path num_labels output_attentions torch_dtype"
        return name in fields or name in others.split() or name.endswith("_token_id") or name[:1] == "_"

    def to_gma(self) -> GmaConfig:
        """The fields that the model is built from."""
        return GmaConfig(**{name: getattr(self, alias) for name, alias in _NAMES.items()})


class GmaCache(ModelState):
    """State of a model, with what `generate` asks of a cache. Its size does not grow."""

    is_compileable = False

    @property
    def is_linear(self) -> list[bool]:
        return [True] * len(self.layers)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.position

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.layers = self.reorder(beam_idx.to(torch.int64)).layers


@dataclass
class GmaCausalLMOutput(ModelOutput):
    """Loss, if there are labels; logits (B, T, vocab_size); the cache, if it is used."""

    loss: Tensor | None = None
    logits: Tensor | None = None
    cache: GmaCache | None = None


class GmaPretrainedForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[no-untyped-call]
    """`GmaForCausalLM`, weight by weight, as a model of transformers.

    >>> model = AutoModelForCausalLM.from_config(
    ...     GmaPretrainedConfig(vocab_size=50, hidden_size=32, num_layers=1, num_components=8)
    ... )
    >>> model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False).shape
    torch.Size([1, 7])
    """

    config_class = GmaPretrainedConfig
    base_model_prefix = "transformer"
    _is_stateful = True
    _keep_in_fp32_modules_strict = {"means", "raw_variances", "prior_logits"}

    def __init__(self, config: GmaPretrainedConfig) -> None:
        super().__init__(config)
        gma = config.to_gma()
        if not gma.is_causal:
            raise ValueError("config.is_causal: expected True in a causal language model, got False")
        self.transformer = GmaTransformer(gma)
        self.head = (
            None if gma.tie_embeddings else nn.Linear(gma.hidden_size, gma.vocab_size, bias=False)
        )
        self.post_init()  # type: ignore[no-untyped-call]

    @classmethod
    def from_gma(cls, model: GmaForCausalLM) -> GmaPretrainedForCausalLM:
        """A copy of a model, as `GmaForCausalLM.from_checkpoint()` gives it."""
        fields = dataclasses.asdict(model.config)
        pretrained = cls(GmaPretrainedConfig(**{_NAMES[name]: fields[name] for name in fields}))
        pretrained.load_state_dict(model.state_dict())
        pretrained.train(model.training)
        return pretrained

    def to_gma(self) -> GmaForCausalLM:
        """A copy as a plain module, which `save_checkpoint()` takes."""
        model = GmaForCausalLM(self.config.to_gma())
        model.load_state_dict(self.state_dict())
        return model.train(self.training)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: GmaCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        return_dict: bool | None = None,
    ) -> GmaCausalLMOutput | tuple[Any, ...]:
        """
        Args:
            input_ids: (B, T) int64; after a cache, the tokens that follow it.
            attention_mask: (B, T), or (B, all tokens so far); 1 = keep. Beside a cache that is given
                or asked for, padding comes in front.
            cache: moves on past input_ids.
            labels: (B, T) int64, shifted inside; -100 is left out of the loss.
            use_cache: whether to make a cache; by default in evaluation mode, without labels and
                with no padding behind.
            logits_to_keep: of the last tokens only; 0 is all.
        """
        mask = _padding_mask(attention_mask, input_ids, cache)
        is_behind = (
            mask is not None
            and has_values(mask)
            and bool((mask[:, :-1] & ~mask[:, 1:]).any())
        )
        if use_cache is None:
            use_cache = self.config.use_cache and not (self.training or labels is not None or is_behind)
        if is_behind and (use_cache or cache is not None):
            raise ValueError(
                "attention_mask: expected padding in front beside a cache, got it behind; "
                "use_cache=False takes any"
            )
        if cache is None and use_cache:
            cache = GmaCache(self.transformer.initial_state(input_ids.size(0)).layers)
        features = self.transformer(input_ids, padding_mask=mask, state=cache)
        if logits_to_keep > 0:
            features = features[:, -logits_to_keep:]
        head = self.transformer.embedding if self.head is None else self.head
        logits = nn.functional.linear(features, head.weight)
        loss = None
        if labels is not None:
            predictions = logits[:, :-1].flatten(0, 1).float()
            loss = nn.functional.cross_entropy(predictions, labels[:, 1:].flatten())
        output = GmaCausalLMOutput(loss, logits, cache)
        if return_dict is False:
            values: tuple[Any, ...] = output.to_tuple()
            return values
        return output

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: GmaCache | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **_: Any,
    ) -> dict[str, Any]:
        """Leaves out the tokens that the cache has seen."""
        is_whole = attention_mask is None or attention_mask.size(1) == input_ids.size(1)
        if cache is not None and is_whole:
            input_ids = input_ids[:, cache.position :]
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "cache": cache,
            "use_cache": use_cache,
            "logits_to_keep": logits_to_keep,
        }

    def get_input_embeddings(self) -> nn.Embedding:
        return self.transformer.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """What `resize_token_embeddings` calls: the size of the vocabulary follows."""
        if not isinstance(value, nn.Embedding):
            raise TypeError(f"value: expected an nn.Embedding, got {type(value).__name__}")
        self.transformer.embedding = value
        self.transformer.config = dataclasses.replace(
            self.transformer.config, vocab_size=value.num_embeddings
        )

    def get_output_embeddings(self) -> nn.Module | None:
        """The head; None where the embedding is the head."""
        return self.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        if not isinstance(new_embeddings, nn.Linear):
            raise TypeError(
                f"new_embeddings: expected an nn.Linear, got {type(new_embeddings).__name__}"
            )
        self.head = new_embeddings

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def _init_weights(self, module: nn.Module) -> None:
        initialize_module(module, self.transformer)


def _padding_mask(
    attention_mask: Tensor | None, input_ids: Tensor, cache: GmaCache | None
) -> Tensor | None:
    """(B, T) bool for input_ids, or None where nothing is padding."""
    if attention_mask is None:
        return None
    length, seen = input_ids.size(1), 0 if cache is None else cache.position
    if attention_mask.dim() != 2 or attention_mask.size(1) not in (length, seen + length):
        raise ValueError(
            f"attention_mask: expected shape [{input_ids.size(0)}, {seen + length}], got "
            f"{list(attention_mask.shape)}"
        )
    mask = attention_mask[:, -length:].bool()
    return None if has_values(mask) and mask.all() else mask


AutoConfig.register(GmaPretrainedConfig.model_type, GmaPretrainedConfig)
AutoModelForCausalLM.register(GmaPretrainedConfig, GmaPretrainedForCausalLM)

__all__ = ["GmaCache", "GmaCausalLMOutput", "GmaPretrainedConfig", "GmaPretrainedForCausalLM"]
