"""Reads and checks config.json."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import CheckpointError
from ..ops import Heads
from ..reference.activation import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the configs share: fields taken from JSON by name, and the rules that each must keep.

    The four fields are ours, for the multi-query paper: None leaves attention as the model family has it. They hold
    for every attention of the model, but for attention_window, which is the decoder's self-attention's alone.
    """

    SIZES: ClassVar[tuple[str, ...]]  # whole numbers above 0
    FLAGS: ClassVar[tuple[str, ...]]  # true or false
    ALIASES: ClassVar[dict[str, str]]  # other names that transformers takes for a field

    if TYPE_CHECKING:  # what each family has
        activation_function: str

        @property
        def width(self) -> int: ...

    num_key_value_heads: int | None = None  # G: 1 is multi-query attention
    key_width: int | None = None  # K, of a query and key head
    value_width: int | None = None  # U, of a value head
    attention_window: int | None = None  # positions that a row sees, its own included

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Takes the known fields; the others (dropout rates, task settings) do not bear on decoding."""
        known = {f.name for f in dataclasses.fields(cls)}
        taken: dict[str, Any] = {}
        for name, value in fields.items():
            field = cls.ALIASES.get(name, name)
            if field in taken and taken[field] != value:
                raise CheckpointError(f"config.json gives {field} twice: {taken[field]!r} and, as {name}, {value!r}")
            if field in known:
                taken[field] = value
        return cls(**taken)

    def check(self) -> None:
        """Raises CheckpointError on the first field that breaks its rule."""
        ours = [f.name for f in dataclasses.fields(Config) if getattr(self, f.name) is not None]
        for field in (*self.SIZES, *ours):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
                told = "a number of that size" if isinstance(value, int) and abs(value) >= 2**31 else repr(value)
                raise CheckpointError(f"config.json: {field} must be a whole number from 1 to 2**31 - 1, not {told}")
        for field in self.FLAGS:
            if not isinstance(getattr(self, field), bool):
                raise CheckpointError(f"config.json: {field} must be true or false, not {getattr(self, field)!r}")
        activation = self.activation_function
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise CheckpointError(
                f"config.json: activation_function {activation!r} is not one of {', '.join(ACTIVATIONS)}"
            )

    def check_heads(self, width: str, heads: str) -> None:
        """The width must be a multiple of the number of heads, unless their widths are given; and H one of G."""
        D, H, G = getattr(self, width), getattr(self, heads), self.num_key_value_heads
        if D % H and None in (self.key_width, self.value_width):
            raise CheckpointError(f"config.json: {width} {D} is not a multiple of {heads} {H}")
        if G and H % G:
            raise CheckpointError(f"config.json: {heads} {H} is not a multiple of num_key_value_heads {G}")

    def heads(self, H: int, scaled: bool = True, window: int | None = None) -> Heads:
        """H query heads, and what config.json or else the family's custom says of the rest."""
        K, U = self.key_width or self.width // H, self.value_width or self.width // H
        return Heads(H, self.num_key_value_heads or H, K, U, K**-0.5 if scaled else 1.0, window)


@dataclass(frozen=True, kw_only=True)
class GPT2Config(Config):
    """The fields of a GPT-2 `config.json` that change what is computed, with transformers' defaults."""

    SIZES = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }  # fmt: skip
    FLAGS = ("scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings", "add_cross_attention")

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
        if self.n_inner is None and isinstance(self.n_embd, int):
            object.__setattr__(self, "n_inner", 4 * self.n_embd)
        self.check()
        self.check_heads("n_embd", "n_head")
        epsilon = self.layer_norm_epsilon
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
            raise CheckpointError(f"config.json: layer_norm_epsilon must be a number from 0 to 1, not {epsilon!r}")
        if self.add_cross_attention:
            raise CheckpointError("config.json: add_cross_attention is not supported for gpt2: use a model without it")

    @property
    def context(self) -> int:
        """The most tokens that the model can look at."""
        return self.n_positions

    @property
    def layers(self) -> int:
        return self.n_layer

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.n_layer, self.heads(self.n_head, self.scale_attn_weights))}

    @property
    def width(self) -> int:
        return self.n_embd


@dataclass(frozen=True, kw_only=True)
class BartConfig(Config):
    """The fields of a BART `config.json` that change what is computed, with transformers' defaults."""

    SIZES = ("vocab_size", "max_position_embeddings", "d_model", "encoder_layers", "encoder_ffn_dim",
             "encoder_attention_heads", "decoder_layers", "decoder_ffn_dim", "decoder_attention_heads")  # fmt: skip
    FLAGS = ("scale_embedding", "tie_word_embeddings")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
    }  # fmt: skip
    # Switches of the BART code of old, which later code, and this, has only in one position.
    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False,
        "static_position_embeddings": False,
    }  # fmt: skip

    vocab_size: int = 50265
    max_position_embeddings: int = 1024
    d_model: int = 1024
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    scale_embedding: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self):
        self.check()
        self.check_heads("d_model", "encoder_attention_heads")
        self.check_heads("d_model", "decoder_attention_heads")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        for name, value in cls.FIXED.items():
            if fields.get(name, value) != value:
                raise CheckpointError(f"config.json: {name}={fields[name]!r} is another kind of model than bart")
        return super().from_json(fields)

    @property
    def context(self) -> int:
        """The most tokens of a source, and of a target."""
        return self.max_position_embeddings

    @property
    def layers(self) -> int:
        return self.encoder_layers + self.decoder_layers

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {
            "encoder": (self.encoder_layers, self.heads(self.encoder_attention_heads)),
            "decoder": (self.decoder_layers, self.heads(self.decoder_attention_heads)),
        }

    @property
    def width(self) -> int:
        return self.d_model
