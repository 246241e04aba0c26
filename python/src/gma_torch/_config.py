# Copyright 2026 The gma authors. SPDX-License-Identifier: Apache-2.0
"""What a model is built from: the fields, and the JSON text, of the C++ ModelConfig."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from dataclasses import dataclass
from typing import Any

COVARIANCE_TYPES = ("diag", "tied", "spherical")


def require(good: bool, name: str, expected: str, value: object) -> None:
    if not good:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def check_field(name: str, expected: type, value: object) -> None:
    """An int may stand for a float; a bool never stands for a number."""
    fits = isinstance(value, (int, float) if expected is float else expected)
    if not fits or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"{name}: expected {expected.__name__}, got {type(value).__name__}")
    if expected is float and isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ValueError(f"{name}: expected a float, got an int beyond all of them")


def check_mixer(
    *,
    hidden_size: int,
    num_heads: int,
    num_key_value_heads: int,
    use_rotary: bool,
    rotary_base: float,
    short_conv_width: int,
    attention_dropout: float,
    num_components: int,
    covariance_type: str,
    initial_variance: float,
    variance_floor: float,
    eps: float,
) -> None:
    """Raises ValueError naming the first argument that a mixer cannot use."""
    require(hidden_size > 0, "hidden_size", "a positive int", hidden_size)
    require(num_heads > 0, "num_heads", "a positive int", num_heads)
    require(
        hidden_size % num_heads == 0,
        "num_heads",
        f"a divisor of hidden_size ({hidden_size})",
        num_heads,
    )
    require(num_key_value_heads >= 0, "num_key_value_heads", "at least 0", num_key_value_heads)
    require(
        num_heads % (num_key_value_heads or num_heads) == 0,
        "num_key_value_heads",
        f"a divisor of num_heads ({num_heads})",
        num_key_value_heads,
    )
    if use_rotary:
        head_size = hidden_size // num_heads
        require(
            head_size % 2 == 0, "hidden_size / num_heads", "an even size with use_rotary", head_size
        )
        require(
            math.isfinite(rotary_base) and rotary_base > 1, "rotary_base", "above 1", rotary_base
        )
    require(short_conv_width >= 1, "short_conv_width", "a positive int", short_conv_width)
    require(0 <= attention_dropout < 1, "attention_dropout", "in [0, 1)", attention_dropout)
    require(num_components > 0, "num_components", "a positive int", num_components)
    require(
        covariance_type in COVARIANCE_TYPES,
        "covariance_type",
        "'diag', 'tied' or 'spherical'",
        covariance_type,
    )
    require(
        math.isfinite(variance_floor) and variance_floor > 0,
        "variance_floor",
        "a positive number",
        variance_floor,
    )
    require(
        initial_variance == 0
        or (math.isfinite(initial_variance) and initial_variance > variance_floor),
        "initial_variance",
        f"0 or above variance_floor ({variance_floor})",
        initial_variance,
    )
    require(math.isfinite(eps) and eps >= 0, "eps", "a finite number of at least 0", eps)


@dataclass(frozen=True, kw_only=True)
class GmaConfig:
    """Sizes and options of a model, with the names and defaults of the `gma` program's.

    The fields of mixers other than `gma` are carried along, so that the text of a config comes
    out as it went in, but only `mixer="gma"` can be built here.

    Raises:
        ValueError, TypeError: naming the first field that is unusable.

    >>> config = GmaConfig(vocab_size=100, hidden_size=32, num_heads=2, is_causal=True)
    >>> config.head_size
    16
    >>> GmaConfig.from_json(config.to_json()) == config
    True
    """

    mixer: str = "gma"
    vocab_size: int = 256
    num_layers: int = 4
    mlp_size: int = 0
    """0 = 4 hidden_size."""
    dropout: float = 0.0
    """On embeddings and on each residual branch."""
    learned_positions: bool = False
    sinusoidal_positions: bool = False
    """Sines and cosines of the position added to embeddings (Vaswani et al., 2017), as large as
    these are at the start; needs an even hidden_size."""
    max_length: int = 0
    """Needed with learned_positions."""
    tie_embeddings: bool = True
    num_classes: int = 0
    """Sequence classifier only, as pooling."""
    pooling: str = "mean"
    """What is classified: the "mean" of the tokens that are kept, or the "first" of them."""
    hidden_size: int = 128
    num_heads: int = 4
    num_key_value_heads: int = 0
    """0 = num_heads."""
    is_causal: bool = False
    use_rotary: bool = True
    rotary_base: float = 10000.0
    use_short_conv: bool = False
    short_conv_width: int = 4
    attention_dropout: float = 0.0
    num_components: int = 64
    covariance_type: str = "diag"
    initial_variance: float = 0.0
    """0 = 4 sqrt(head size)."""
    variance_floor: float = 1e-4
    eps: float = 1e-6
    num_features: int = 0
    feature_redraw_interval: int = 0
    projection_rank: int = 16
    state_size: int = 16
    inner_size: int = 0
    dt_rank: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_field(field.name, type(field.default), getattr(self, field.name))
        require(
            self.mixer == "gma",
            "mixer",
            "'gma' (models of other mixers run in the gma program only)",
            self.mixer,
        )
        require(self.vocab_size > 0, "vocab_size", "a positive int", self.vocab_size)
        require(self.num_layers > 0, "num_layers", "a positive int", self.num_layers)
        require(self.mlp_size >= 0, "mlp_size", "at least 0", self.mlp_size)
        require(0 <= self.dropout < 1, "dropout", "in [0, 1)", self.dropout)
        require(self.max_length >= 0, "max_length", "at least 0", self.max_length)
        require(
            not self.learned_positions or self.max_length > 0,
            "max_length",
            "a positive int with learned_positions",
            self.max_length,
        )
        require(
            not self.sinusoidal_positions or self.hidden_size % 2 == 0,
            "hidden_size",
            "an even int with sinusoidal_positions",
            self.hidden_size,
        )
        require(self.num_classes >= 0, "num_classes", "at least 0", self.num_classes)
        require(self.pooling in ("mean", "first"), "pooling", "'mean' or 'first'", self.pooling)
        check_mixer(**self.mixer_checks())

    def mixer_checks(self) -> dict[str, Any]:
        """The fields that check_mixer() takes."""
        names = (
            "hidden_size num_heads num_key_value_heads use_rotary rotary_base short_conv_width "
            "attention_dropout num_components covariance_type initial_variance variance_floor eps"
        )
        return {name: getattr(self, name) for name in names.split()}

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads

    @property
    def key_value_heads(self) -> int:
        return self.num_key_value_heads or self.num_heads

    def to_json(self) -> str:
        """JSON text with one key a field, as the C++ ModelConfig reads and writes it."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> GmaConfig:
        """The config of such a text. Raises ValueError or TypeError for text that is not JSON,
        for an unknown or repeated key, and for a value of another type."""

        def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            seen = set()
            for key, _ in pairs:
                if key in seen:
                    raise ValueError(f"config: expected each key once, got {key!r} twice")
                seen.add(key)
            return dict(pairs)

        try:
            fields = json.loads(text, object_pairs_hook=refuse_repeated)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"config: expected JSON, got text with an error: {error}") from None
        if not isinstance(fields, dict):
            raise ValueError(f"config: expected a JSON object, got {type(fields).__name__}")
        known = {field.name for field in dataclasses.fields(cls)}
        for key in fields:
            require(key in known, "config", "known keys only", key)
        return cls(**fields)


def check_config(config: object) -> None:
    if not isinstance(config, GmaConfig):
        raise TypeError(f"config: expected a GmaConfig, got {type(config).__name__}")
