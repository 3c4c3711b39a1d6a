"""ProphetNet: the forward passes of encoder and decoder, the config and the tensors.

It was trained to predict several tokens ahead, each by a stream of rows of its own. To generate, only two rows of a
token are needed: the main stream's, which is kept, and that of the first predict stream, which is a query row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads, PositionBias, Weight
from . import bart
from .bart import EncoderBlock, Stack, embed, encode, feed_forward, tied_tensors
from .config import Config, NamedTensors, log_share, shapes_of_norms_and_products
from .products import activated_product, product, residual_norm

__all__ = ["DecoderBlock", "Weights", "bind", "encode", "forward", "lm_head", "tensor_shapes", "tied_tensors"]


@dataclass(frozen=True)
class DecoderBlock(bart.DecoderBlock):
    relative: Weight  # of each row: what is added to its scores, by head and bucket of the distance


@dataclass(frozen=True)
class Weights(bart.Weights):
    """`query_ND` has the query row behind position n, before its norm: it stands for no token."""

    bucket_L: Any  # of each distance


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> x_RD of the query rows behind them, or behind those in pick_R.

    `lm_head` makes them into logits. A query row stands one position behind its token, sees all tokens up to that one,
    and itself. Of the last layer's token rows keys and values alone are needed.
    """
    query_pos_R = pos_R if pick_R is None else pos_R[pick_R]
    kept_RD = embed(ids_R, pos_R, w.decoder, w.embedding_scale, ops)
    _, query_RD = ops.embed_norm(query_pos_R, query_pos_R, w.query_ND, None, 1.0, w.decoder.ln_embedding)
    x_RD = caches[0].target.join_rows(ops, kept_RD, query_RD)
    for block, cache in zip(w.decoder.blocks, caches, strict=True):
        is_last = block is w.decoder.blocks[-1]
        bias = position_bias(x_RD, block, w.bucket_L, ops)
        q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
        a_RX = cache.attend(ops, q_RHK, bias, queries_alone=is_last)
        if is_last:
            x_RD = cache.target.pick_query_rows(ops, x_RD)
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_self)
        a_RX = cache.cross.attend(ops, product(ops, x_RD, block.cross_q))
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.cross_out, block.ln_cross)
        x_RD = feed_forward(x_RD, block, w.activation, ops)
    return x_RD


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(x_RD, w.lm_head)


def position_bias(x_RD, block, bucket_L, ops):
    """What each row adds to its scores by distance: a product of the row itself, where T5 has a table."""
    r_RX = activated_product(ops, x_RD, block.relative, "linear")
    return PositionBias(r_RX.reshape(len(x_RD), block.heads.H, -1), bucket_L)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ProphetNetConfig(Config):
    """The fields of a ProphetNet or XLM-ProphetNet `config.json` that change what is computed, transformers' defaults.

    `ngram` is how many tokens ahead it was trained to predict; of its rows one is needed. Losses are no matter here.
    """

    WIDTH, FEED_FORWARD = "hidden_size", "decoder_ffn_dim"
    LAYERS = ("num_encoder_layers", "num_decoder_layers")
    SIZES = ("vocab_size", "hidden_size", "num_encoder_layers", "encoder_ffn_dim", "num_encoder_attention_heads",
             "num_decoder_layers", "decoder_ffn_dim", "num_decoder_attention_heads", "max_position_embeddings", "ngram",
             "num_buckets", "relative_max_distance")  # fmt: skip
    FLAGS = ("tie_word_embeddings", "add_cross_attention")
    ALIASES: ClassVar[dict[str, str]] = {"num_attention_heads": "num_encoder_attention_heads"}
    FIRST: ClassVar[int] = 1  # the first token's row in a table of positions; the padding's is before it
    UNTIED_TABLE_NAMES: ClassVar[tuple[str, str, str]] = (
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
    def table_names(self) -> tuple[str, str, str]:
        """The names of the tensors that hold the tokens of the source, those of the target, and the head."""
        return ("word_embeddings.weight",) * 3 if self.tie_word_embeddings else self.UNTIED_TABLE_NAMES

    def bucket_of_distance(self) -> np.ndarray:
        """bucket_L: of each distance from query to key, by T5's equation. Rounded as transformers rounds it here.

        It adds the buckets of one distance each before the fraction is cut off, so that 20.9999999 becomes 21.
        """
        n, near = self.num_buckets, self.num_buckets // 2
        back_L = np.arange(self.relative_max_distance + 1)
        grown_L = np.float32(near) + log_share(back_L, near, self.relative_max_distance) * np.float32(n - near)
        return np.where(back_L < near, back_L, np.minimum(grown_L, n - 1).astype(np.int64))

    @property
    def position_bias_outputs(self) -> int:
        return self.num_buckets * self.num_decoder_attention_heads

    @property
    def context(self) -> int:
        """The most tokens of a target: the query row behind the last of them has a position, too."""
        return self.max_position_embeddings - self.FIRST - 1

    @property
    def source_context(self) -> int:
        return self.max_position_embeddings - self.FIRST

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {
            "encoder": (self.num_encoder_layers, self.heads(self.num_encoder_attention_heads)),
            "decoder": (self.num_decoder_layers, self.heads(self.num_decoder_attention_heads)),
        }


# ---- tensors ---------------------------------------------------------------------------------------------------------
# ProphetNet's files: which tensors they hold, and where each goes. XLM-ProphetNet has the same names.

PREFIX = "prophetnet."
LAYER = r"(encoder|decoder)\.layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
ATTENTIONS = {"encoder": ("self_attn",), "decoder": ("self_attn", "cross_attn")}
RELATIVE = "self_attn.relative_pos_embeddings"


def ignored_tensors(c) -> str:
    """The table that both sides have copies of, where they have tables of their own."""
    return "(?!)" if c.tie_word_embeddings else r"word_embeddings\.weight"


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `prophetnet.`."""
    D, P = c.hidden_size, c.max_position_embeddings
    shapes: dict[str, tuple[int, ...]] = {name: (c.vocab_size, D) for name in c.table_names}
    shapes["decoder.ngram_embeddings.weight"] = (c.ngram, D)
    for side, (layers, h) in c.stacks.items():
        shapes[f"{side}.position_embeddings.weight"] = (P, D)
        F, norms, products = getattr(c, f"{side}_ffn_dim"), [f"{side}.embeddings_layer_norm"], []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            norms += [f"{layer}.{name}_layer_norm" for name in (*ATTENTIONS[side], "feed_forward")]
            widths = {"query": (h.H * h.K, D), "key": (h.G * h.K, D), "value": (h.G * h.U, D), "out": (D, h.H * h.U)}
            products += [(f"{layer}.{a}.{p}_proj", *s) for a in ATTENTIONS[side] for p, s in widths.items()]
            products += [(f"{layer}.feed_forward.intermediate", F, D), (f"{layer}.feed_forward.output", D, F)]
            products += [(f"{layer}.{RELATIVE}", c.num_buckets * h.H, D)] * (side == "decoder")
        shapes |= shapes_of_norms_and_products(D, norms, products)
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input are one weight."""
    named = NamedTensors(tensors, 1e-5)
    norm, weight = named.norm, named.weight

    def bind_relative_weight(name, H):
        """Outputs by bucket and head, as files have them -> by head and bucket."""
        parts = (tensors[f"{name}.{kind}"] for kind in ("weight", "bias"))
        data, bias = (part.reshape(c.num_buckets, H, -1).swapaxes(0, 1).reshape(part.shape) for part in parts)
        return Weight(data, bias, layout="oi")

    def bind_stack(side, wte, kind):
        layers, h = c.stacks[side]
        heads = replace(h, window=c.attention_window) if side == "decoder" else h
        blocks = []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            attention, cross = f"{layer}.self_attn", f"{layer}.cross_attn"
            parts = (
                weight(*(f"{attention}.{p}_proj" for p in ("query", "key", "value"))), heads,
                weight(f"{attention}.out_proj"), norm(f"{attention}_layer_norm"),
                weight(f"{layer}.feed_forward.intermediate"), weight(f"{layer}.feed_forward.output"),
                norm(f"{layer}.feed_forward_layer_norm"),
            )  # fmt: skip
            seen = () if side == "encoder" else (
                weight(f"{cross}.query_proj"), h, weight(f"{cross}.out_proj"), norm(f"{cross}_layer_norm"),
                bind_relative_weight(f"{layer}.{RELATIVE}", h.H),
            )  # fmt: skip
            blocks.append(kind(*parts, *seen))
        wpe = tensors[f"{side}.position_embeddings.weight"][c.FIRST :]
        return Stack(wte, wpe, norm(f"{side}.embeddings_layer_norm"), tuple(blocks))

    source, target, head = (tensors[name] for name in c.table_names)
    decoder = bind_stack("decoder", target, DecoderBlock)
    # The stream that predicts the next token has the last row of this table, and those further ahead the rows before.
    query_ND = decoder.wpe_ND[1:] + tensors["decoder.ngram_embeddings.weight"][-1]
    layers = (f"decoder.layers.{i}" for i in range(c.num_decoder_layers))
    return Weights(
        decoder, 1.0, c.activation_function, Weight(head, layout="oi"),
        c.bucket_of_distance(), encoder=bind_stack("encoder", source, EncoderBlock), query_ND=query_ND,
        cross_kv=weight(*(f"{layer}.cross_attn.{p}_proj" for layer in layers for p in ("key", "value"))),
    )  # fmt: skip
