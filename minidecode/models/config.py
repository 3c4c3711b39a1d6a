"""What all families share: the base of their configs, which reads and checks config.json, and of their weights."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, Weight
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
    # Of these come width, context, layers and feed_forward, so no field may have such a name.
    WIDTH: ClassVar[str]  # the field that says how wide the layers are
    CONTEXT: ClassVar[str]  # and how many tokens the model can look at
    LAYERS: ClassVar[tuple[str, ...]]  # the fields that count layers
    FEED_FORWARD: ClassVar[str]  # the field that says how wide feed-forward parts are, of a decoder if there is one

    if TYPE_CHECKING:  # what each family has
        activation_function: str
        vocab_size: int

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
                given = "a number of that size" if isinstance(value, int) and abs(value) >= 2**31 else repr(value)[:80]
                raise CheckpointError(f"config.json: {field} must be an integer from 1 to 2**31 - 1, not {given}")
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
    def width(self) -> int:
        """Numbers of a hidden state."""
        return getattr(self, self.WIDTH)

    @property
    def feed_forward(self) -> int:
        """Numbers between the two products of a feed-forward part."""
        return getattr(self, self.FEED_FORWARD)

    @property
    def context(self) -> int:
        """The most tokens that the model can look at: of a text, or of a source and of a target each."""
        return getattr(self, self.CONTEXT)

    @property
    def layers(self) -> int:
        """How many layers there are, of all stacks."""
        return sum(getattr(self, name) for name in self.LAYERS)

    @property
    def source_vocab_size(self) -> int:
        """How many tokens the encoder knows; `vocab_size` is of what is generated."""
        return self.vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        """Whether a token id means the same in sources and targets."""
        return True

    @property
    def generated_vocab_size(self) -> int:
        """How many tokens can be generated, which are the first ones of the vocabulary."""
        return self.vocab_size

    @property
    def source_context(self) -> int:
        """The most tokens of a source; `context` is of a target."""
        return self.context

    @property
    def is_gated(self) -> bool:
        """Whether a feed-forward layer has two products in, of which one is the gate of the other."""
        return False

    @property
    def position_bias_outputs(self) -> int:
        """How many numbers a row makes its position bias of, by a product of its own."""
        return 0

    def stack_of_tensor(self, name: str) -> str:
        """The one of `stacks` that the layer of a tensor is in."""
        return "encoder" if name.startswith("encoder.") else "decoder"

    def complete_from_weights(self, stored: dict[str, Any], equal: Callable[..., bool]) -> Config:
        """The config as the weights answer what config.json leaves open; equal: compares two tensors."""
        return self

    def for_live_model(self) -> Config:
        """The config of a live model of transformers, where that computes something else than its files say here."""
        return self

    def heads(self, H: int, scaled: bool = True, window: int | None = None) -> Heads:
        """H query heads, and what config.json or else the family's custom says of the rest."""
        K, U = self.key_width or self.width // H, self.value_width or self.width // H
        return Heads(H, self.num_key_value_heads or H, K, U, K**-0.5 if scaled else 1.0, window)


@dataclass(frozen=True, kw_only=True)
class ModelWeights:
    """What the engine asks of the weights of each family, beside the forward passes. None: the family has no such."""

    encoder: Any = None  # with `blocks` of its own
    cross_kv: Weight | None = None  # keys and values of the source for all decoder layers: one product makes them
    memory: Weight | None = None  # a latent -> for each layer a vector that is both key and value of position 0
    target_place: int | None = None  # where sources are read in front of targets: of these, the first place in a table
    query_ND: Any = None  # the row that predicts the next token, by place, where it is not the token's own

    if TYPE_CHECKING:  # what each family has; lm_head: where it writes

        @property
        def blocks(self) -> tuple[Any, ...]: ...

        @property
        def lm_head(self) -> Weight: ...


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig(Config):
    """What configs of an encoder and a decoder share whose layers and heads have the same names."""

    LAYERS = ("encoder_layers", "decoder_layers")

    encoder_layers: int
    encoder_attention_heads: int
    decoder_layers: int
    decoder_attention_heads: int

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {
            "encoder": (self.encoder_layers, self.heads(self.encoder_attention_heads)),
            "decoder": (self.decoder_layers, self.heads(self.decoder_attention_heads)),
        }


@dataclass(frozen=True)
class NamedTensors:
    """The tensors of a file by name, in families whose norms and products all have biases."""

    tensors: dict[str, Any]
    epsilon: float  # of all norms

    def norm(self, name: str) -> Norm:
        """A norm's gain and bias."""
        return Norm(self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], self.epsilon)

    def weight(self, *names: str) -> Weight:
        """The matrix and bias of a product; several that share an input become one, whose data is a tuple.

        device/low_precision.py joins the matrices.
        """
        data, bias = ([self.tensors[f"{name}.{kind}"] for name in names] for kind in ("weight", "bias"))
        if len(names) == 1:
            return Weight(data[0], bias[0], layout="oi")
        return Weight(tuple(data), np.concatenate(bias), layout="oi")


def shapes_of_norms_and_products(
    D: int, norms: Iterable[str], products: Iterable[tuple[str, int, int]]
) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the tensors of these norms of width D, and of these products: name, outputs, inputs."""
    shapes: dict[str, tuple[int, ...]] = {f"{name}.{part}": (D,) for name in norms for part in ("weight", "bias")}
    for name, outputs, inputs in products:
        shapes |= {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}
    return shapes


def log_share(far_L: np.ndarray, near: int, farthest: int) -> np.ndarray:
    """ln(far / near) / ln(farthest / near): how much of the way a distance has come; 0 up to `near`. float32."""
    return np.log((np.maximum(far_L, near) / near).astype(np.float32)) / np.float32(math.log(farthest / near))


def make_sinusoid_table(first: int, count: int, frequency_X: np.ndarray, D: int) -> np.ndarray:
    """A table of positions, float64: row n is sin(p w_0), sin(p w_1), ..., cos(p w_0), cos(p w_1), ..., p = first + n.

    All sines stand before all cosines. A column of zeros fills an odd width D.
    """
    angle_NX = np.arange(first, first + count)[:, None] * frequency_X
    table_ND = np.zeros((count, D))
    table_ND[:, : 2 * frequency_X.size] = np.concatenate([np.sin(angle_NX), np.cos(angle_NX)], axis=1)
    return table_ND


def check_epsilon(epsilon: Any, name: str = "layer_norm_epsilon") -> None:
    """Raises CheckpointError on what a norm cannot add to a variance."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon <= 1:
        raise CheckpointError(f"config.json: {name} must be a number from 0 to 1, not {shown(epsilon)}")
