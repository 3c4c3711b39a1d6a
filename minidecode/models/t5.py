"""T5, mT5 and UMT5: the forward passes of encoder and decoder, the config and the tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, PositionBias, Weight
from .config import Config, ModelWeights, check_epsilon, log_share
from .products import activated_product, gated_product, product, residual_norm


@dataclass(frozen=True)
class EncoderBlock:
    ln_self: Norm
    qkv: Weight
    heads: Heads  # with the position bias
    out: Weight
    ln_feed: Norm
    is_gated: bool
    up: Weight  # of a gated layer the gate's outputs too: 0 of the gate, 0, 1 of the gate, 1, ...
    down: Weight
    next_ln: Norm  # the norm that reads this block's result: the next block's ln_self, or the final one


@dataclass(frozen=True)
class DecoderBlock(EncoderBlock):
    cross_q: Weight
    cross_heads: Heads
    cross_out: Weight
    ln_cross: Norm


@dataclass(frozen=True)
class Stack:
    """The encoder or the decoder."""

    wte_VD: Any
    blocks: tuple[Any, ...]


@dataclass(frozen=True)
class Weights(ModelWeights):
    """`encoder` is a `Stack`, too."""

    decoder: Stack
    activation: str
    lm_head: Weight

    @property
    def blocks(self):
        """The blocks that decoding keeps a cache for."""
        return self.decoder.blocks


def encode(w: Weights, ids_R, pos_R, caches, ops):
    """Source tokens, one row each, no padding -> h_RD, what the decoder's cross attention reads.

    No position is added to a token: what a row sees at which distance is in the position bias of its attention.
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.encoder.wte_VD, None, 1.0, w.encoder.blocks[0].ln_self)
    for block, cache in zip(w.encoder.blocks, caches, strict=True):
        x_RD, h_RD = attend_self(x_RD, h_RD, block, cache, block.ln_feed, ops)
        x_RD, h_RD = feed_forward(x_RD, h_RD, block, w.activation, ops)
    return h_RD


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    Each cache holds a layer's own keys and values, and by `cross` those of the source.
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.decoder.wte_VD, None, 1.0, w.decoder.blocks[0].ln_self)
    for block, cache in zip(w.decoder.blocks, caches, strict=True):
        x_RD, h_RD = attend_self(x_RD, h_RD, block, cache, block.ln_cross, ops)
        a_RX = cache.cross.attend(ops, product(ops, h_RD, block.cross_q))
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.cross_out, block.ln_feed)
        x_RD, h_RD = feed_forward(x_RD, h_RD, block, w.activation, ops)
    return h_RD if pick_R is None else ops.gather_rows(h_RD, pick_R)


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)


def attend_self(x_RD, h_RD, block, cache, norm, ops):
    """(x, h) behind self-attention; `bind_norm` is that of what comes next."""
    q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
    return residual_norm(ops, x_RD, cache.attend(ops, q_RHK), block.out, norm)


def feed_forward(x_RD, h_RD, block, activation, ops):
    """(x, h) behind down(act(up h)), or behind down(act(gate h) * (up h)), with outputs of both in pairs."""
    f_RF = (gated_product if block.is_gated else activated_product)(ops, h_RD, block.up, activation)
    return residual_norm(ops, x_RD, f_RF, block.down, block.next_ln)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class T5Config(Config):
    """The fields of a T5, mT5 or UMT5 `config.json` that change what is computed, with transformers' defaults."""

    WIDTH, FEED_FORWARD = "d_model", "d_ff"
    LAYERS = ("num_layers", "decoder_layers")
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
        near, far_L = n // 2, np.abs(back_L)
        grown_L = log_share(far_L, near, farthest) * np.float32(n - near)
        bucket_L = np.where(far_L < near, far_L, np.minimum(near + grown_L.astype(np.int64), n - 1))
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
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        heads = self.heads(self.num_heads)
        assert self.decoder_layers is not None  # `__post_init__` has set it
        return {"encoder": (self.num_layers, heads), "decoder": (self.decoder_layers, heads)}

    def complete_from_weights(self, stored: dict[str, Any], equal: Callable[..., bool]) -> T5Config:
        """The config as the file answers it: the head is the model's own if the file has one with other numbers.

        What tie_word_embeddings says is no answer: transformers 5 writes true of every T5. equal: compares two tensors.
        """
        table = next((stored[name] for name in ("shared.weight", *tied_tensors(self)) if name in stored), None)
        if table is None or "lm_head.weight" not in stored or stored["lm_head.weight"].shape != table.shape:
            return self
        return replace(self, own_head=not equal(stored["lm_head.weight"], table))


# ---- tensors ---------------------------------------------------------------------------------------------------------
# T5's files: which tensors they hold, and where each goes. mT5 and UMT5 have the same names.

PREFIX = ""
LAYER = r"(encoder|decoder)\.block\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
UPS = {True: ("wi_0", "wi_1"), False: ("wi",)}  # gated or not
BIAS = "layer.0.SelfAttention.relative_attention_bias.weight"


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: a table of the first files."""
    return r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    copies = ["decoder.embed_tokens", "encoder.embed_tokens", *([] if c.has_own_head else ["lm_head"])]
    return {f"{copy}.weight": "shared.weight" for copy in copies}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D, F, V, h = c.d_model, c.d_ff, c.vocab_size, c.heads(c.num_heads)
    shapes: dict[str, tuple[int, ...]] = {"shared.weight": (V, D)}
    if c.has_own_head:
        shapes["lm_head.weight"] = (V, D)
    for side, (layers, _) in c.stacks.items():
        attentions = ["SelfAttention", "EncDecAttention"] if side == "decoder" else ["SelfAttention"]
        for i in range(layers):
            for k, name in enumerate([*attentions, "DenseReluDense"]):
                layer = f"{side}.block.{i}.layer.{k}"
                shapes[f"{layer}.layer_norm.weight"] = (D,)
                widths = {"q": (h.H * h.K, D), "k": (h.G * h.K, D), "v": (h.G * h.U, D), "o": (D, h.H * h.U)}
                parts = widths if name in attentions else dict.fromkeys(UPS[c.is_gated], (F, D)) | {"wo": (D, F)}
                shapes |= {f"{layer}.{name}.{part}.weight": shape for part, shape in parts.items()}
            if i == 0 or c.has_bias_in_each_block:
                shapes[f"{side}.block.{i}.{BIAS}"] = (c.relative_attention_num_buckets, h.H)
        shapes[f"{side}.final_layer_norm.weight"] = (D,)
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input become one matrix."""

    def bind_norm(name, scale=1.0):
        gain_D = tensors[f"{name}.weight"]
        return Norm(gain_D if scale == 1.0 else gain_D * gain_D.dtype.type(scale), None, c.layer_norm_epsilon)

    def bind_joined_weight(*names):
        data = [tensors[f"{name}.weight"] for name in names]
        return Weight(np.concatenate(data) if len(data) > 1 else data[0], layout="oi")

    def bind_up_weight(name):
        rows = [tensors[f"{name}.{part}.weight"] for part in UPS[c.is_gated]]
        return Weight(np.stack(rows, 1).reshape(-1, c.d_model) if c.is_gated else rows[0], layout="oi")

    def bind_blocks(side, layers, two_sided, window=None):
        buckets = c.bucket_of_distance(two_sided)
        for i in range(layers):
            block, last = f"{side}.block.{i}", f"{side}.block.{i}.layer.{1 if two_sided else 2}"
            table_PH = tensors[f"{side}.block.{i if c.has_bias_in_each_block else 0}.{BIAS}"]
            bias = PositionBias(np.ascontiguousarray(table_PH.T)[None], *buckets)
            attention, up = f"{block}.layer.0.SelfAttention", f"{last}.DenseReluDense"
            next_ln = f"{side}.block.{i + 1}.layer.0.layer_norm" if i + 1 < layers else f"{side}.final_layer_norm"
            parts = (
                bind_norm(f"{block}.layer.0.layer_norm"), bind_joined_weight(*(f"{attention}.{p}" for p in "qkv")),
                replace(c.heads(c.num_heads, window=window), bias=bias), bind_joined_weight(f"{attention}.o"),
                bind_norm(f"{last}.layer_norm"), c.is_gated, bind_up_weight(up), bind_joined_weight(f"{up}.wo"),
                bind_norm(next_ln, c.logit_scale if next_ln.startswith("decoder.final") else 1.0),  # logits'
            )  # fmt: skip
            cross = f"{block}.layer.1.EncDecAttention"
            yield EncoderBlock(*parts) if two_sided else DecoderBlock(
                *parts, bind_joined_weight(f"{cross}.q"), c.heads(c.num_heads), bind_joined_weight(f"{cross}.o"),
                bind_norm(f"{block}.layer.1.layer_norm"),
            )  # fmt: skip

    encoder = tuple(bind_blocks("encoder", c.num_layers, two_sided=True))
    decoder = tuple(bind_blocks("decoder", c.decoder_layers, two_sided=False, window=c.attention_window))
    wte = tensors["shared.weight"]
    sources = (f"decoder.block.{i}.layer.1.EncDecAttention.{p}" for i in range(c.decoder_layers) for p in "kv")
    return Weights(
        Stack(wte, decoder), c.activation_function,
        Weight(tensors["lm_head.weight"] if c.has_own_head else wte, layout="oi"),
        encoder=Stack(wte, encoder), cross_kv=bind_joined_weight(*sources),
    )  # fmt: skip
