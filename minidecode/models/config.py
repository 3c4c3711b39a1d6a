"""config.json, read and held to its rules."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..errors import CheckpointError


@dataclass(frozen=True)
class GPT2Config:
    """The fields of a GPT-2 `config.json` that change what is computed, with transformers' defaults."""

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # None: 4 * n_embd
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True
    add_cross_attention: bool = False

    def __post_init__(self):
        for field in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"):
            value = getattr(self, field)
            if field == "n_inner" and value is None:
                object.__setattr__(self, field, 4 * self.n_embd)
            elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CheckpointError(f"config.json: {field} must be a whole number above 0, not {value!r}")
        for field in ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings"):
            if not isinstance(getattr(self, field), bool):
                raise CheckpointError(f"config.json: {field} must be true or false, not {getattr(self, field)!r}")
        epsilon = self.layer_norm_epsilon
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
            raise CheckpointError(f"config.json: layer_norm_epsilon must be a small number from 0 up, not {epsilon!r}")
        if self.n_embd % self.n_head:
            raise CheckpointError(f"config.json: n_embd {self.n_embd} is not a multiple of n_head {self.n_head}")
        if self.add_cross_attention:
            raise CheckpointError("config.json: add_cross_attention is not supported for gpt2: use a model without it")
        from ..reference.activation import ACTIVATIONS

        if not isinstance(self.activation_function, str) or self.activation_function not in ACTIVATIONS:
            raise CheckpointError(
                f"config.json: activation_function {self.activation_function!r} is not one of {', '.join(ACTIVATIONS)}"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> GPT2Config:
        """Takes the known fields; the others (dropout rates, task settings) do not bear on decoding."""
        known = {f.name for f in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in fields.items() if name in known})
