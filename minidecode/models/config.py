"""Reads and checks config.json."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads
from ..reference.activation import ACTIVATIONS


@dataclass(frozen=True, kw_only=True)
class Config:
    """What the configs share: fields taken from JSON by name, and the rules that each must keep.

    The four fields are ours, for the multi-query paper: None leaves attention as the model family has it. They hold
    for every attention of the model, but for attention_window, which is the decoder's self-attention's alone.
    """

    MOST_LAYERS: ClassVar[int] = 2**12  # of all stacks; each has a dozen tensors, which are listed
    MOST_POSITIONS: ClassVar[int] = 2**21  # in tables that are computed, and not read from a file
    MOST_NUMBERS: ClassVar[int] = 2**26  # in such a table: 256 MB
    MOST_DISTANCE: ClassVar[int] = 2**20  # between two tokens, in tables of distances

    SIZES: ClassVar[tuple[str, ...]]  # integers above 0
    FLAGS: ClassVar[tuple[str, ...]]  # true or false
    ALIASES: ClassVar[dict[str, str]]  # other names that transformers takes for a field

    if TYPE_CHECKING:  # what each family has
        activation_function: str
        vocab_size: int

        @property
        def width(self) -> int: ...

        @property
        def context(self) -> int: ...

        @property
        def layers(self) -> int: ...

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
                both = f"{shown(taken[field])} and, as {name}, {shown(value)}"
                raise CheckpointError(f"config.json gives {field} twice: {both}")
            if field in known:
                taken[field] = value
        return cls(**taken)

    def check(self) -> None:
        """Raises CheckpointError on the first field that breaks its rule."""
        ours = [f.name for f in dataclasses.fields(Config) if getattr(self, f.name) is not None]
        for field in (*self.SIZES, *ours):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**31:
                told = "a number of that size" if isinstance(value, int) and abs(value) >= 2**31 else repr(value)[:80]
                raise CheckpointError(f"config.json: {field} must be an integer from 1 to 2**31 - 1, not {told}")
        for field in self.FLAGS:
            if not isinstance(getattr(self, field), bool):
                raise CheckpointError(f"config.json: {field} must be true or false, not {getattr(self, field)!r:.80}")
        activation = self.activation_function
        if not isinstance(activation, str) or activation not in ACTIVATIONS:
            raise CheckpointError(
                f"config.json: activation_function {shown(activation)} is not one of {', '.join(ACTIVATIONS)}"
            )
        if self.layers > self.MOST_LAYERS:
            raise CheckpointError(
                f"config.json: {self.layers:,} layers are more than any model has: at most {self.MOST_LAYERS:,} can be"
            )

    def check_positions(self, name: str, width: int) -> None:
        """The table of positions, which is computed for all of them, must fit into the memory."""
        positions = getattr(self, name)
        if positions > self.MOST_POSITIONS or positions * width > self.MOST_NUMBERS:
            raise CheckpointError(
                f"config.json: {name} {positions:,} needs a table of {positions * width * 4 / 2**30:,.1f} GB: set it "
                "to the most tokens that you need"
            )

    def check_distance(self, name: str) -> None:
        if (distance := getattr(self, name)) > self.MOST_DISTANCE:
            raise CheckpointError(f"config.json: {name} {distance:,} is too far: at most {self.MOST_DISTANCE:,} can be")

    def check_heads(self, width: str, heads: str) -> None:
        """The width must be a multiple of the number of heads, unless their widths are given; and H one of G."""
        D, H, G = getattr(self, width), getattr(self, heads), self.num_key_value_heads
        if D % H and None in (self.key_width, self.value_width):
            raise CheckpointError(f"config.json: {width} {D} is not a multiple of {heads} {H}")
        if G and H % G:
            raise CheckpointError(f"config.json: {heads} {H} is not a multiple of num_key_value_heads {G}")

    @property
    def source_vocab_size(self) -> int:
        """How many tokens the encoder knows; `vocab_size` is of what is generated."""
        return self.vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        """Whether a token id means the same in sources and targets."""
        return True

    @property
    def head_size(self) -> int:
        """How many tokens can be generated, which are the first ones of the vocabulary."""
        return self.vocab_size

    @property
    def source_context(self) -> int:
        """The most tokens of a source; `context` is of a target."""
        return self.context

    @property
    def reads_in_front(self) -> bool:
        """Whether the layers of a target read its source in front of it, so that both share one context (UniLM)."""
        return False

    def heads(self, H: int, scaled: bool = True, window: int | None = None) -> Heads:
        """H query heads, and what config.json or else the family's custom says of the rest."""
        K, U = self.key_width or self.width // H, self.value_width or self.width // H
        return Heads(H, self.num_key_value_heads or H, K, U, K**-0.5 if scaled else 1.0, window)


@dataclass(frozen=True, kw_only=True)
class GPT2Config(Config):
    """The fields of a GPT-2 `config.json` that change what is computed, with transformers' defaults."""

    SIZES: ClassVar[tuple[str, ...]] = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = (
        "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings", "add_cross_attention"
    )  # fmt: skip

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
        check_epsilon(self.layer_norm_epsilon)
        if self.add_cross_attention:
            raise CheckpointError(
                "config.json: add_cross_attention is not supported in decoder-only models: use a model without it"
            )

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
class GPT2LatentConfig(GPT2Config):
    """The fields of a GPT-2 with a latent, which are ours: GPT-2's, and of the BERT that reads latents from texts.

    That BERT has the decoder's vocabulary, positions, widths and heads. Position 0 of the decoder is the latent's, so
    that a text has one position less.
    """

    SIZES = (*GPT2Config.SIZES, "latent_size", "encoder_layers")

    latent_size: int = 32
    encoder_layers: int = 12

    @property
    def layers(self) -> int:
        return self.n_layer + self.encoder_layers

    def __post_init__(self):
        super().__post_init__()
        heads = self.heads(self.n_head)
        if heads.K != heads.U:
            raise CheckpointError(
                f"config.json: key_width {heads.K} and value_width {heads.U} must be equal in a gpt2_latent, where one "
                "vector is both: leave one of them out"
            )
        if self.n_positions < 2:
            raise CheckpointError("config.json: n_positions must be at least 2: the first is the latent's")

    @property
    def context(self) -> int:
        """The most tokens that the model can look at, beside the latent."""
        return self.n_positions - 1

    @property
    def encoder(self) -> BertConfig:
        """Of the encoder."""
        assert self.n_inner is not None  # as __post_init__ has left it
        return BertConfig(
            vocab_size=self.vocab_size, hidden_size=self.n_embd, num_hidden_layers=self.encoder_layers,
            num_attention_heads=self.n_head, intermediate_size=self.n_inner, max_position_embeddings=self.n_positions,
            type_vocab_size=1, activation_function=self.activation_function, layer_norm_eps=self.layer_norm_epsilon,
            has_pooler=True,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GPTBigCodeConfig(GPT2Config):
    """The fields of a StarCoder or SantaCoder `config.json`: GPT-2's, and whether query heads share keys and values.

    Without multi_query, c_attn has the query, key and value of head 0, then those of head 1, and so on. Fewer key/value
    heads, which num_key_value_heads says, are ours (see `convert`): then it has all queries, keys and values in turn.
    """

    FLAGS = (*GPT2Config.FLAGS, "multi_query")

    activation_function: str = "gelu_pytorch_tanh"
    multi_query: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.multi_query and self.num_key_value_heads is None:
            object.__setattr__(self, "num_key_value_heads", 1)
        if self.multi_query and self.num_key_value_heads != 1:
            raise CheckpointError(
                f"config.json: multi_query has one key/value head, and num_key_value_heads is "
                f"{self.num_key_value_heads}: set multi_query to false, or leave num_key_value_heads out"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Without GPT-2's division of scores by the layer's number, which these models do not have."""
        return super().from_json({k: v for k, v in fields.items() if k != "scale_attn_by_inverse_layer_idx"})

    @property
    def is_interleaved(self) -> bool:
        """Whether c_attn has the query, key and value of one head beside each other."""
        return self.num_key_value_heads in (None, self.n_head) and not self.multi_query


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(Config):
    """What configs of an encoder and a decoder share whose layers and heads have the same names."""

    encoder_layers: int
    encoder_attention_heads: int
    decoder_layers: int
    decoder_attention_heads: int

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


@dataclass(frozen=True, kw_only=True)
class BartConfig(TranslatorConfig):
    """The fields of a BART `config.json` that change what is computed, with transformers' defaults."""

    SIZES: ClassVar[tuple[str, ...]] = (
        "vocab_size", "max_position_embeddings", "d_model", "encoder_layers", "encoder_ffn_dim",
        "encoder_attention_heads", "decoder_layers", "decoder_ffn_dim", "decoder_attention_heads",
    )  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = ("scale_embedding", "tie_word_embeddings")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
    }  # fmt: skip
    TABLES: ClassVar[tuple[str, str, str]] = (
        "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"
    )  # fmt: skip
    # Switches of the BART code of old, which later code, and this, has only in one position.
    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": False, "normalize_embedding": True, "add_final_layer_norm": False,
        "static_position_embeddings": False,
    }  # fmt: skip

    model_type: str = "bart"
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
                kind = fields.get("model_type", "bart")
                raise CheckpointError(f"config.json: {name}={shown(fields[name])} is another kind of model than {kind}")
        return super().from_json(fields)

    @property
    def has_embedding_norm(self) -> bool:
        """Whether a norm follows the sum of token and position."""
        return self.FIXED["normalize_embedding"]

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm follows the last layer of each side."""
        return self.FIXED["add_final_layer_norm"]

    @property
    def learns_positions(self) -> bool:
        """Whether tables of positions are in the file; sinusoids are computed."""
        return not self.FIXED["static_position_embeddings"]

    @property
    def tables(self) -> tuple[str, str, str]:
        """The tensors that hold the tokens of the source, those of the target, and the head."""
        if self.tie_word_embeddings:
            return ("shared.weight",) * 3
        return self.TABLES

    @property
    def context(self) -> int:
        """The most tokens of a source, and of a target."""
        return self.max_position_embeddings

    @property
    def width(self) -> int:
        return self.d_model


@dataclass(frozen=True, kw_only=True)
class MBartConfig(BartConfig):
    """The fields of an mBART `config.json`: BART's, with norms in front of the sublayers, and one at either end."""

    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": True, "normalize_embedding": True, "add_final_layer_norm": True,
        "static_position_embeddings": False,
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MarianConfig(BartConfig):
    """The fields of a Marian `config.json`: BART's, without a norm behind the embeddings, and with sinusoids."""

    SIZES = (*BartConfig.SIZES, "encoder_vocab_size")
    FLAGS = (*BartConfig.FLAGS, "share_encoder_decoder_embeddings")
    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": False, "normalize_embedding": False, "add_final_layer_norm": False,
        "static_position_embeddings": True,
    }  # fmt: skip

    vocab_size: int = 58101  # the target's, which config.json calls decoder_vocab_size
    encoder_vocab_size: int = 58101  # config.json's vocab_size
    pad_token_id: int | None = 58100
    share_encoder_decoder_embeddings: bool = True
    padding_in_head: bool = False  # ours

    def __post_init__(self):
        super().__post_init__()
        self.check_positions("max_position_embeddings", self.width)
        if self.share_encoder_decoder_embeddings and self.vocab_size != self.encoder_vocab_size:
            raise CheckpointError(
                f"config.json: share_encoder_decoder_embeddings needs one vocabulary, and vocab_size is "
                f"{self.encoder_vocab_size} and decoder_vocab_size {self.vocab_size}: one of the three is not this "
                "model's"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        source = fields.get("vocab_size", cls.vocab_size)
        target = fields.get("decoder_vocab_size")
        target = source if target is None else target
        return super().from_json(fields | {"vocab_size": target, "encoder_vocab_size": source})

    @property
    def source_vocab_size(self) -> int:
        return self.encoder_vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        """Two tables of embeddings are of two vocabularies, which may have the same size."""
        return self.share_encoder_decoder_embeddings

    @property
    def head_size(self) -> int:
        """All tokens but the padding, if it is the last one.

        The converter from Marian to transformers added that row of zeros, for targets to begin with. transformers has
        it in its softmax: so a live model of transformers has it here (padding_in_head).
        """
        return self.vocab_size - (self.pad_token_id == self.vocab_size - 1 and not self.padding_in_head)

    @property
    def tables(self) -> tuple[str, str, str]:
        """The tensors that hold the tokens of the source, those of the target, and the head."""
        if self.share_encoder_decoder_embeddings or not self.tie_word_embeddings:
            return super().tables
        return "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.embed_tokens.weight"

    def sinusoids(self) -> np.ndarray:
        """The table of positions: w_i = 10000^(-2i/D), from position 0. An odd width has one sine more than cosines."""
        frequency_X = 10000.0 ** (-2 * np.arange((self.width + 1) // 2) / self.width)
        return sinusoids(0, self.context, frequency_X, 2 * frequency_X.size)[:, : self.width]


@dataclass(frozen=True, kw_only=True)
class T5Config(Config):
    """The fields of a T5, mT5 or UMT5 `config.json` that change what is computed, with transformers' defaults."""

    SIZES = ("vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "decoder_layers", "num_heads",
             "relative_attention_num_buckets", "relative_attention_max_distance")  # fmt: skip
    FLAGS = ("tie_word_embeddings",)
    ALIASES: ClassVar[dict[str, str]] = {
        "num_decoder_layers": "decoder_layers", "hidden_size": "d_model", "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers", "head_dim": "d_kv",
    }  # fmt: skip
    MULTILINGUAL: ClassVar[dict[str, Any]] = {  # what mT5 and UMT5 have where T5 has other defaults
        "vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu",
    }  # fmt: skip

    model_type: str = "t5"
    vocab_size: int = 32128
    d_model: int = 512
    d_kv: int = 64
    d_ff: int = 2048
    num_layers: int = 6
    decoder_layers: int | None = None  # None: num_layers
    num_heads: int = 8
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    layer_norm_epsilon: float = 1e-6
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None  # as transformers 5 keeps it; None: where the head is tied
    transformers_version: str | None = None  # that wrote the file: of an mT5, whether its logits are scaled
    own_head: bool | None = None  # whether the head's numbers are not the table's, as the file has it; None: not known

    def __post_init__(self):
        if self.decoder_layers is None:
            object.__setattr__(self, "decoder_layers", self.num_layers)
        if not isinstance(self.feed_forward_proj, str):
            raise CheckpointError(f"config.json: feed_forward_proj must be a name, not {shown(self.feed_forward_proj)}")
        self.check()
        self.check_distance("relative_attention_max_distance")
        buckets, farthest = self.relative_attention_num_buckets, self.relative_attention_max_distance
        if buckets < 4 or farthest <= buckets // 2:
            raise CheckpointError(
                f"config.json: relative_attention_num_buckets {buckets} must be at least 4, and less than twice "
                f"relative_attention_max_distance {farthest}"
            )
        if (G := self.num_key_value_heads) and self.num_heads % G:
            raise CheckpointError(
                f"config.json: num_heads {self.num_heads} is not a multiple of num_key_value_heads {G}"
            )
        check_epsilon(self.layer_norm_epsilon)
        if self.scale_decoder_outputs not in (None, True, False):
            raise CheckpointError(
                f"config.json: scale_decoder_outputs must be true or false, not {shown(self.scale_decoder_outputs)}"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        if fields.get("model_type") in ("mt5", "umt5"):
            named = {cls.ALIASES.get(name, name) for name in fields}
            fields = {name: value for name, value in cls.MULTILINGUAL.items() if name not in named} | fields
        return super().from_json(fields)

    @property
    def is_gated(self) -> bool:
        return self.feed_forward_proj.startswith("gated-")

    @property  # type: ignore[misc]  # a field of other families
    def activation_function(self) -> str:
        """ "gated-gelu" is transformers' name for the gated gelu_new; any other name means itself."""
        name = self.feed_forward_proj.removeprefix("gated-")
        return "gelu_new" if self.feed_forward_proj == "gated-gelu" else name

    @property
    def has_bias_in_each_block(self) -> bool:
        """Whether every layer has a table of position biases of its own, not the first alone for all."""
        return self.model_type == "umt5"

    @property
    def has_own_head(self) -> bool:
        return not self.tie_word_embeddings if self.own_head is None else self.own_head

    @property
    def logit_scale(self) -> float:
        """What the decoder's output is multiplied with before the head: 1/sqrt(D) where the head is the table."""
        if self.has_own_head or not self.tie_word_embeddings or self.scale_decoder_outputs is False:
            return 1.0
        if self.model_type == "mt5" and self.scale_decoder_outputs is None and not self._is_of_transformers_4():
            return 1.0
        return self.d_model**-0.5

    def _is_of_transformers_4(self) -> bool:
        """Whether transformers 4 or before wrote the file, which scaled the logits of a tied mT5, as 5 does not."""
        version = re.match(r"(\d{1,3})\.", str(self.transformers_version))
        if version is None:
            raise CheckpointError(
                "config.json: the logits of an mt5 whose head is the embedding are scaled by transformers 4 and not by "
                "transformers 5, and it has no transformers_version: set scale_decoder_outputs to true or false"
            )
        return int(version[1]) < 5

    def bucket_of_distance(self, two_sided: bool) -> tuple[np.ndarray, int]:
        """(bucket_L, zero): entry t - m + zero is the bucket of a query at position t and a key at m.

        Half of the buckets are one distance each; the others grow with its logarithm, up to the largest distance. An
        encoder's key may lie behind its query: such keys have the upper half of all buckets.

        Logarithms are rounded as transformers rounds them, to float32: in float64, ln(64/4) / ln(128/4) * 5 is below 4.
        """
        buckets, farthest = self.relative_attention_num_buckets, self.relative_attention_max_distance
        back_L = np.arange(-farthest if two_sided else 0, farthest + 1)
        n = buckets // 2 if two_sided else buckets
        own, far_L = n // 2, np.abs(back_L)
        grown_L = log_share(far_L, own, farthest) * np.float32(n - own)
        bucket_L = np.where(far_L < own, far_L, np.minimum(own + grown_L.astype(np.int64), n - 1))
        return bucket_L + np.where(back_L < 0, n, 0), farthest if two_sided else 0

    def heads(self, H: int, scaled: bool = False, window: int | None = None) -> Heads:
        """T5's heads have a width of their own, and its scores are not scaled."""
        G, K, U = self.num_key_value_heads or H, self.key_width or self.d_kv, self.value_width or self.d_kv
        return Heads(H, G, K, U, K**-0.5 if scaled else 1.0, window)

    @property
    def context(self) -> int:
        """T5 sets no limit of its own: distances beyond the last bucket count as that. So much is read at once."""
        return 2**15

    @property
    def layers(self) -> int:
        return self.num_layers + (self.decoder_layers or 0)

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        heads = self.heads(self.num_heads)
        return {"encoder": (self.num_layers, heads), "decoder": (self.decoder_layers or 0, heads)}

    @property
    def width(self) -> int:
        return self.d_model


@dataclass(frozen=True, kw_only=True)
class ProphetNetConfig(Config):
    """The fields of a ProphetNet or XLM-ProphetNet `config.json` that change what is computed, transformers' defaults.

    `ngram` is how many tokens ahead it was trained to predict; of its rows one is needed. Losses are no matter here.
    """

    SIZES = ("vocab_size", "hidden_size", "num_encoder_layers", "encoder_ffn_dim", "num_encoder_attention_heads",
             "num_decoder_layers", "decoder_ffn_dim", "num_decoder_attention_heads", "max_position_embeddings", "ngram",
             "num_buckets", "relative_max_distance")  # fmt: skip
    FLAGS = ("tie_word_embeddings", "add_cross_attention")
    ALIASES: ClassVar[dict[str, str]] = {"num_attention_heads": "num_encoder_attention_heads"}
    FIRST: ClassVar[int] = 1  # the first token's row in a table of positions; the padding's is before it
    TABLES: ClassVar[tuple[str, str, str]] = (
        "encoder.word_embeddings.weight", "decoder.word_embeddings.weight", "lm_head.weight"
    )  # fmt: skip

    vocab_size: int = 30522
    hidden_size: int = 1024
    num_encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    num_encoder_attention_heads: int = 16
    num_decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    num_decoder_attention_heads: int = 16
    max_position_embeddings: int = 512
    ngram: int = 2
    num_buckets: int = 32
    relative_max_distance: int = 128
    activation_function: str = "gelu"
    tie_word_embeddings: bool = True
    add_cross_attention: bool = True

    def __post_init__(self):
        self.check()
        self.check_heads("hidden_size", "num_encoder_attention_heads")
        self.check_heads("hidden_size", "num_decoder_attention_heads")
        if self.max_position_embeddings < 3:
            raise CheckpointError(
                f"config.json: max_position_embeddings {self.max_position_embeddings} must be at least 3: the padding's"
                " and those of a token and of the query row behind it"
            )
        self.check_distance("relative_max_distance")
        if self.num_buckets < 2 or self.relative_max_distance <= self.num_buckets // 2:
            raise CheckpointError(
                f"config.json: num_buckets {self.num_buckets} must be at least 2, and less than twice "
                f"relative_max_distance {self.relative_max_distance}"
            )
        if not self.add_cross_attention:
            raise CheckpointError(
                "config.json: add_cross_attention=False, a decoder alone, is not supported: use a ProphetNet with its"
                " encoder"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Refuses a padding other than 0: positions would be counted from it, which transformers' steps cannot do."""
        if fields.get("pad_token_id") not in (None, 0):
            raise CheckpointError(
                f"config.json: pad_token_id={shown(fields['pad_token_id'], 40)} is not supported: ProphetNet's is 0"
            )
        return super().from_json(fields)

    @property
    def tables(self) -> tuple[str, str, str]:
        """The tensors that hold the tokens of the source, those of the target, and the head."""
        return ("word_embeddings.weight",) * 3 if self.tie_word_embeddings else self.TABLES

    def bucket_of_distance(self) -> np.ndarray:
        """bucket_L: of each distance from query to key, by T5's equation. Rounded as transformers rounds it here.

        It adds the buckets of one distance each before the fraction is cut off, so that 20.9999999 becomes 21.
        """
        n, own = self.num_buckets, self.num_buckets // 2
        back_L = np.arange(self.relative_max_distance + 1)
        grown_L = np.float32(own) + log_share(back_L, own, self.relative_max_distance) * np.float32(n - own)
        return np.where(back_L < own, back_L, np.minimum(grown_L, n - 1).astype(np.int64))

    @property
    def context(self) -> int:
        """The most tokens of a target: the query row behind the last of them has a position, too."""
        return self.max_position_embeddings - self.FIRST - 1

    @property
    def source_context(self) -> int:
        return self.max_position_embeddings - self.FIRST

    @property
    def layers(self) -> int:
        return self.num_encoder_layers + self.num_decoder_layers

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {
            "encoder": (self.num_encoder_layers, self.heads(self.num_encoder_attention_heads)),
            "decoder": (self.num_decoder_layers, self.heads(self.num_decoder_attention_heads)),
        }

    @property
    def width(self) -> int:
        return self.hidden_size


def log_share(far_L: np.ndarray, own: int, farthest: int) -> np.ndarray:
    """ln(far / own) / ln(farthest / own): how much of the way a distance has come; 0 up to `own`. float32."""
    return np.log((np.maximum(far_L, own) / own).astype(np.float32)) / np.float32(math.log(farthest / own))


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """The fields of a `config.json` of Llama, Qwen2 or Mistral that change what is computed, transformers' defaults.

    model_type decides where biases are: Qwen2 has them at queries, keys and values alone, Mistral has none.
    """

    SIZES = ("vocab_size", "max_position_embeddings", "hidden_size", "intermediate_size", "num_hidden_layers",
             "num_attention_heads")  # fmt: skip
    ALIASES: ClassVar[dict[str, str]] = {"hidden_act": "activation_function"}
    FLAGS = ("tie_word_embeddings", "qkv_bias", "out_bias", "mlp_bias")
    KINDS: ClassVar[tuple[str, ...]] = ("default", "linear", "llama3")  # of rotation
    MOST_NUMBERS: ClassVar[int] = 2**28  # in the table of rotations: 1 GB, or 2 million positions of 128
    DEFAULTS: ClassVar[dict[str, dict[str, int]]] = {  # where they are not Llama's
        "mistral": {"intermediate_size": 14336, "max_position_embeddings": 2**17, "num_key_value_heads": 8,
                    "sliding_window": 4096},
        "qwen2": {"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 2**15},
    }  # fmt: skip

    vocab_size: int = 32000
    max_position_embeddings: int = 2048
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    activation_function: str = "silu"
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    rope_theta: float = 10000.0
    rope: dict[str, Any] = dataclasses.field(default_factory=dict)  # the kind of rotation, and its numbers

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Reads the names of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters)."""
        kind = fields.get("model_type")
        fields = cls.DEFAULTS.get(str(kind), {}) | fields
        given = dict(fields)
        given |= {"qkv_bias": kind == "qwen2" or fields.get("attention_bias", False), "out_bias": False}
        if kind == "llama":
            given["out_bias"] = fields.get("attention_bias", False)
        if fields.get("head_dim") is not None:
            given |= {"key_width": fields["head_dim"], "value_width": fields["head_dim"]}
        if fields.get("attention_window") is None:
            given["attention_window"] = cls._window(kind, fields)
        rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise CheckpointError(f"config.json: rope_scaling must be an object, not {shown(rope)}")
        given["rope"] = rope
        if rope.get("rope_theta") is not None:
            given["rope_theta"] = rope["rope_theta"]
        return super().from_json({k: v for k, v in given.items() if v is not None})

    @staticmethod
    def _window(kind: Any, fields: dict[str, Any]) -> int | None:
        """How many positions a row sees: Mistral's sliding_window, which is null where it sees all."""
        if kind == "mistral":
            return fields.get("sliding_window")
        if kind == "qwen2" and fields.get("use_sliding_window"):
            raise CheckpointError("config.json: use_sliding_window, a window in some layers alone, is not supported")
        return None

    def __post_init__(self):
        self.check()
        self.check_heads("hidden_size", "num_attention_heads")
        epsilon, K = self.rms_norm_eps, self.heads(self.num_attention_heads).K
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
            raise CheckpointError(f"config.json: rms_norm_eps must be a number from 0 to 1, not {shown(epsilon)}")
        if K % 2:
            raise CheckpointError(f"config.json: head_dim {K} is odd, and its halves are turned together")
        self.check_positions("max_position_embeddings", K)
        kind = self.rope_kind
        if kind not in self.KINDS:
            raise CheckpointError(f"config.json: rope_type {shown(kind)} is not supported: {', '.join(self.KINDS)} are")
        if self.rope.get("partial_rotary_factor", 1) != 1:
            raise CheckpointError("config.json: partial_rotary_factor is not supported: all of a head is turned")
        self._check_number("rope_theta", self.rope_theta, 1)
        names = {"linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor",
                                                   "original_max_position_embeddings")}  # fmt: skip
        for name in names.get(kind, ()):
            self._check_number(name, self.rope.get(name), 0)
        if kind == "llama3" and self.rope["low_freq_factor"] >= self.rope["high_freq_factor"]:
            raise CheckpointError("config.json: low_freq_factor must be below high_freq_factor")

    @staticmethod
    def _check_number(name: str, value: Any, above: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value:
            raise CheckpointError(f"config.json: {name} must be a number above {above}, not {shown(value)}")
        if value >= 2**63:
            raise CheckpointError(f"config.json: {name} must be below 2**63, not {shown(value)}")

    @property
    def rope_kind(self) -> Any:
        """The kind of rotation; old files call it `type`."""
        return self.rope.get("rope_type", self.rope.get("type", "default"))

    def frequencies(self, K: int) -> np.ndarray:
        """f_i, by which the i-th pair of a head turns from one position to the next: theta^(-2i/K), scaled.

        linear: f / factor. llama3: so where a wave is longer than original/low, not at all where it is shorter than
        original/high, and between the two a share of both.
        """
        f_X = self.rope_theta ** (-2 * np.arange(K // 2) / K)
        if self.rope_kind == "linear":
            return f_X / self.rope["factor"]
        if self.rope_kind == "llama3":
            low, high = self.rope["low_freq_factor"], self.rope["high_freq_factor"]
            turns_X = self.rope["original_max_position_embeddings"] * f_X / (2 * math.pi)
            share_X = np.clip((turns_X - low) / (high - low), 0, 1)
            return (1 - share_X) * f_X / self.rope["factor"] + share_X * f_X
        return f_X

    @property
    def context(self) -> int:
        """The most tokens that the model can look at."""
        return self.max_position_embeddings

    @property
    def layers(self) -> int:
        return self.num_hidden_layers

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}

    @property
    def width(self) -> int:
        return self.hidden_size


@dataclass(frozen=True, kw_only=True)
class FairseqConfig(TranslatorConfig):
    """The values of a fairseq Transformer's Namespace that change what is computed, and the sizes of its dictionaries.

    What config.json leaves out has the default of the architecture that `arch` names. FSMT's config.json, whose names
    are those of transformers, is read too.
    """

    SIZES = ("src_vocab_size", "tgt_vocab_size", "encoder_embed_dim", "encoder_layers", "encoder_ffn_embed_dim",
             "encoder_attention_heads", "decoder_layers", "decoder_ffn_embed_dim", "decoder_attention_heads",
             "max_source_positions", "max_target_positions")  # fmt: skip
    FLAGS = ("encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos", "decoder_learned_pos",
             "share_all_embeddings", "share_decoder_input_output_embed", "no_scale_embedding", "layernorm_embedding",
             "no_token_positional_embeddings", "no_encoder_final_norm", "no_decoder_final_norm")  # fmt: skip
    ALIASES: ClassVar[dict[str, str]] = {"activation_fn": "activation_function"}
    OF_TRANSFORMER: ClassVar[dict[str, Any]] = {
        "encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048, "encoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_layers": 6, "decoder_attention_heads": 8,
    }  # fmt: skip
    OF_BIG: ClassVar[dict[str, Any]] = {
        "encoder_embed_dim": 1024, "encoder_ffn_embed_dim": 4096, "encoder_layers": 6, "encoder_attention_heads": 16,
        "decoder_layers": 6, "decoder_attention_heads": 16,
    }  # fmt: skip
    T2T: ClassVar[dict[str, Any]] = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    ARCHITECTURES: ClassVar[dict[str, dict[str, Any]]] = {
        "transformer": OF_TRANSFORMER, "transformer_wmt_en_de": OF_TRANSFORMER,
        "transformer_iwslt_de_en": OF_TRANSFORMER | {
            "encoder_ffn_embed_dim": 1024, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        },
        "transformer_vaswani_wmt_en_de_big": OF_BIG, "transformer_vaswani_wmt_en_fr_big": OF_BIG,
        "transformer_wmt_en_de_big": OF_BIG, "transformer_wmt_en_de_big_t2t": OF_BIG | T2T,
    }  # fmt: skip
    ACTIVATIONS: ClassVar[dict[str, str]] = {"gelu_accurate": "gelu_new", "relu_squared": "relu2"}  # fairseq's names
    TABLES: ClassVar[tuple[str, ...]] = (
        "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight",
    )  # fmt: skip
    OF_FSMT: ClassVar[dict[str, str]] = {  # transformers' names, and fairseq's
        "encoder_ffn_dim": "encoder_ffn_embed_dim", "decoder_ffn_dim": "decoder_ffn_embed_dim",
        "d_model": "encoder_embed_dim", "tie_word_embeddings": "share_all_embeddings",
    }  # fmt: skip
    REFUSED: ClassVar[dict[str, str]] = {
        "adaptive_softmax_cutoff": "a head in clusters of rare words (adaptive softmax)",
        "adaptive_input": "embeddings in clusters of rare words (adaptive input)",
        "cross_self_attention": "one attention over source and target together",
        "no_cross_attention": "a decoder that does not see the source",
        "encoder_layers_to_keep": "layers that are left out (pruning)",
        "decoder_layers_to_keep": "layers that are left out (pruning)",
        "merge_src_tgt_embed": "one table of two dictionaries",
        "base_layers": "layers of experts (BASE)",
        "char_inputs": "embeddings made of characters",
        **dict.fromkeys(("scale_attn", "scale_fc", "scale_heads", "scale_resids"), "more norms and gains (NormFormer)"),
    }  # fmt: skip

    model_type: str = "fairseq"
    src_vocab_size: int
    tgt_vocab_size: int
    encoder_embed_dim: int
    encoder_ffn_embed_dim: int
    decoder_ffn_embed_dim: int
    max_source_positions: int = 1024
    max_target_positions: int = 1024
    activation_function: str = "relu"
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    encoder_learned_pos: bool = False
    decoder_learned_pos: bool = False
    share_all_embeddings: bool = False
    share_decoder_input_output_embed: bool = False
    no_scale_embedding: bool = False
    layernorm_embedding: bool = False
    no_token_positional_embeddings: bool = False
    no_encoder_final_norm: bool = False  # ours: of the oldest files
    no_decoder_final_norm: bool = False

    def __post_init__(self):
        self.check()
        self.check_heads("encoder_embed_dim", "encoder_attention_heads")
        self.check_heads("encoder_embed_dim", "decoder_attention_heads")
        if self.share_all_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise CheckpointError(
                f"config.json: share_all_embeddings needs one dictionary, and src_vocab_size is {self.src_vocab_size} "
                f"and tgt_vocab_size {self.tgt_vocab_size}: one of the three is not this model's"
            )
        for side, name in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
            if not (self.learns_positions(side) or self.no_token_positional_embeddings):
                self.check_sinusoids(name)

    def check_sinusoids(self, name: str) -> None:
        self.check_positions(name, self.width)
        if self.width < 4:
            raise CheckpointError(f"config.json: encoder_embed_dim {self.width} is too small for sinusoids: 4 is least")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        given = {name: value for name, value in fields.items() if value is not None}
        if given.get("model_type") == "fsmt":
            given = cls._of_fsmt(given)
        for name, what in cls.REFUSED.items():
            if given.get(name):
                raise CheckpointError(f"config.json: {name}={shown(given[name], 60)} is not supported: {what}")
        defaults = cls.ARCHITECTURES.get(str(given.get("arch", "transformer")), {})
        needed = ["src_vocab_size", "tgt_vocab_size", *cls.OF_TRANSFORMER]
        if missing := [name for name in needed if name not in defaults | given]:
            what = (
                "how many words its dictionary has, with the four special ones" if missing[0].endswith("vocab_size")
                else f"the architecture {given.get('arch')!r:.60} is not known, so its defaults are not"
            )  # fmt: skip
            raise CheckpointError(f"config.json: {missing[0]} is missing ({what}): add it")
        given = defaults | given
        width = given["encoder_embed_dim"]
        for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
            if given.get(name, width) != width:
                raise CheckpointError(
                    f"config.json: {name}={shown(given[name], 60)} with encoder_embed_dim={shown(width, 60)} is not "
                    "supported: all widths must be equal"
                )
        given.setdefault("decoder_ffn_embed_dim", given["encoder_ffn_embed_dim"])
        for theirs, ours in cls.ACTIVATIONS.items():
            if given.get("activation_fn") == theirs:
                given["activation_fn"] = ours
        return super().from_json(given)

    @classmethod
    def _of_fsmt(cls, given: dict[str, Any]) -> dict[str, Any]:
        """A config of FSMT under fairseq's names; transformers leaves out what has its default."""
        given = {
            "src_vocab_size": 42024, "tgt_vocab_size": 42024, "d_model": 1024, "max_position_embeddings": 1024,
            "encoder_ffn_dim": 4096, "encoder_layers": 12, "encoder_attention_heads": 16, "decoder_ffn_dim": 4096,
            "decoder_layers": 12, "decoder_attention_heads": 16, "scale_embedding": True,
        } | given  # fmt: skip
        most, scales = given.pop("max_position_embeddings"), given.pop("scale_embedding")
        given = {cls.OF_FSMT.get(name, name): value for name, value in given.items()}
        return given | {
            "max_source_positions": most, "max_target_positions": most,
            "no_scale_embedding": not scales if isinstance(scales, bool) else scales,
        }  # fmt: skip

    def is_pre_norm(self, side: str) -> bool:
        """Whether the encoder or the decoder has a norm before each sublayer, not behind it."""
        return getattr(self, f"{side}_normalize_before")

    def has_final_norm(self, side: str) -> bool:
        """Whether a norm follows the last layer; in post-norm the last sublayer ends in one anyway."""
        return self.is_pre_norm(side) and not getattr(self, f"no_{side}_final_norm")

    def learns_positions(self, side: str) -> bool:
        """Whether a table of positions is in the file; sinusoids are computed."""
        return getattr(self, f"{side}_learned_pos") and not self.no_token_positional_embeddings

    @property
    def tables(self) -> tuple[str, str, str]:
        """The tensors that hold the tokens of the source, those of the target, and the head."""
        source, target, head = self.TABLES
        if self.share_all_embeddings:
            return source, source, source
        return source, target, target if self.share_decoder_input_output_embed else head

    def sinusoids(self, side: str) -> np.ndarray:
        """The table of positions of the encoder or the decoder: the first token's is 2, for padding has 1."""
        return sinusoids(2, self.source_context if side == "encoder" else self.context, self.frequencies(), self.width)

    def frequencies(self) -> np.ndarray:
        """w_i = 10000^(-i / (D/2 - 1)): fairseq's sinusoids end at 1/10000 exactly, unlike those of the paper."""
        half = self.width // 2
        return 10000.0 ** (-np.arange(half) / (half - 1))

    @property  # type: ignore[misc]  # a field of other families
    def vocab_size(self) -> int:
        """The target's, whose tokens are generated."""
        return self.tgt_vocab_size

    @property
    def source_vocab_size(self) -> int:
        return self.src_vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        return self.share_all_embeddings

    @property
    def context(self) -> int:
        """The most tokens of a target."""
        return self.max_target_positions

    @property
    def source_context(self) -> int:
        return self.max_source_positions

    @property
    def width(self) -> int:
        return self.encoder_embed_dim


def sinusoids(first: int, count: int, frequency_X: np.ndarray, D: int) -> np.ndarray:
    """A table of positions, float64: row n is sin(p w_0), sin(p w_1), ..., cos(p w_0), cos(p w_1), ..., p = first + n.

    All sines stand before all cosines. A column of zeros fills an odd width D.
    """
    angle_NX = np.arange(first, first + count)[:, None] * frequency_X
    table_ND = np.zeros((count, D))
    table_ND[:, : 2 * frequency_X.size] = np.concatenate([np.sin(angle_NX), np.cos(angle_NX)], axis=1)
    return table_ND


@dataclass(frozen=True, kw_only=True)
class BertConfig(Config):
    """The fields of a BERT `config.json` that change what is computed, with transformers' defaults."""

    SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size")  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = ("labels_tokens", "has_pooler", "has_classifier")
    ALIASES: ClassVar[dict[str, str]] = {"hidden_act": "activation_function"}
    PROBLEMS = (None, "single_label_classification", "multi_label_classification", "regression")
    # What later versions of BERT's code have, and this has not.
    FIXED: ClassVar[dict[str, Any]] = {
        "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
    }  # fmt: skip

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    activation_function: str = "gelu"
    layer_norm_eps: float = 1e-12
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")  # of the classifier
    problem_type: str | None = None
    labels_tokens: bool = False  # whether the classifier is one of tokens, not of texts
    has_pooler: bool = False  # as the file has it
    has_classifier: bool = False

    def __post_init__(self):
        self.check()
        self.check_heads("hidden_size", "num_attention_heads")
        check_epsilon(self.layer_norm_eps, "layer_norm_eps")
        if self.problem_type not in self.PROBLEMS:
            known = ", ".join(str(problem) for problem in self.PROBLEMS[1:])
            raise CheckpointError(f"config.json: problem_type {shown(self.problem_type, 60)} is not one of {known}")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Takes labels from id2label; `labels_tokens` from the architecture, where the file may decide if none is."""
        if cls is BertConfig and "target_type_id" in fields:  # s2s-ft calls what it fine-tunes a BERT
            raise CheckpointError("config.json: target_type_id belongs to UniLM: set model_type to unilm")
        for name, value in cls.FIXED.items():
            if fields.get(name) not in (None, value):
                raise CheckpointError(f"config.json: {name}={shown(fields[name])} is not supported for bert")
        own = {
            "labels": cls._labels(fields),
            "labels_tokens": "ForTokenClassification" in str(fields.get("architectures")),
        }
        return super().from_json(own | {name: value for name, value in fields.items() if name not in own})

    @staticmethod
    def _labels(fields: dict[str, Any]) -> tuple[str, ...]:
        """The names of the labels in the order of their numbers; LABEL_0, LABEL_1 where config.json names none."""
        named = fields.get("id2label")
        if named is None:
            count = fields.get("num_labels", 2)
            if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 2**20:
                raise CheckpointError(f"config.json: num_labels must be an integer above 0, not {shown(count, 40)}")
            return tuple(f"LABEL_{i}" for i in range(count))
        if not isinstance(named, dict) or not named or set(named) != {str(i) for i in range(len(named))}:
            rule = "must name each label by its number from 0"
            raise CheckpointError(f"config.json: id2label {rule}, not {shown(named)}")
        labels = tuple(str(named[str(i)]) for i in range(len(named)))
        if len(set(labels)) < len(labels):
            (twice, _), *_ = Counter(labels).most_common(1)
            remedy = "give each label a name of its own"
            raise CheckpointError(f"config.json: id2label has {shown(twice, 40)} twice: {remedy}")
        return labels

    @property
    def context(self) -> int:
        """The most tokens of a text."""
        return self.max_position_embeddings

    @property
    def layers(self) -> int:
        return self.num_hidden_layers

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"encoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}

    @property
    def width(self) -> int:
        return self.hidden_size


@dataclass(frozen=True, kw_only=True)
class UnilmConfig(BertConfig):
    """The fields of a UniLM `config.json`: BERT's, and which types source and target tokens have.

    Norms add 1e-5 to variances, as all of UniLM's code does; the file's layer_norm_eps is not read there either.
    """

    SIZES = BertConfig.SIZES
    FLAGS: ClassVar[tuple[str, ...]] = ("pos_shift", "has_fast_qkv")
    # What later versions of UniLM's code have, and this has not: the largest value that leaves it off, and what it is.
    UNSUPPORTED: ClassVar[dict[str, tuple[int, str]]] = {
        "rel_pos_bins": (0, "relative positions (UniLM 2)"), "max_rel_pos": (0, "relative positions (UniLM 2)"),
        "relax_projection": (1, "a projection for each task"), "new_pos_ids": (0, "positions for each task"),
        "num_qkv": (1, "several sets of queries, keys and values"), "seg_emb": (0, "segments inside attention"),
        "ffn_type": (0, "another feed-forward layer"),
    }  # fmt: skip

    vocab_size: int = 28996
    type_vocab_size: int = 6
    source_type_id: int = 0
    target_type_id: int = 1
    mask_token_id: int = 103  # [MASK] of BERT's vocabularies
    pos_shift: bool = False  # whether a token's own row predicts the next one, as in GPT-2
    has_fast_qkv: bool = False  # as the file has it: one matrix of queries, keys and values, and no bias of keys

    def __post_init__(self):
        super().__post_init__()
        if self.attention_window is not None:
            raise CheckpointError("config.json: attention_window is not supported for unilm: leave it out")
        below = {"source_type_id": self.type_vocab_size, "target_type_id": self.type_vocab_size,
                 "mask_token_id": self.vocab_size}  # fmt: skip
        for name, count in below.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
                rule = f"must be an integer from 0 to {count - 1}"
                raise CheckpointError(f"config.json: {name} {rule}, not {shown(value, 40)}")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Without what it says of norms and of labels."""
        for name, (most, what) in cls.UNSUPPORTED.items():
            value = fields.get(name) or 0
            if not isinstance(value, int) or value > most:
                raise CheckpointError(
                    f"config.json: {name}={shown(value)} asks for {what}, which is not supported: use a model without "
                    "it"
                )
        unread = ("layer_norm_eps", "id2label", "num_labels", "problem_type", "architectures")
        own = {name: value for name, value in fields.items() if name not in unread and value is not None}
        return super().from_json({**own, "layer_norm_eps": 1e-5})

    @property
    def reads_in_front(self) -> bool:
        return True

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}


def check_epsilon(epsilon: Any, name: str = "layer_norm_epsilon") -> None:
    """Raises CheckpointError on what a norm cannot add to a variance."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1:
        raise CheckpointError(f"config.json: {name} must be a number from 0 to 1, not {shown(epsilon)}")
