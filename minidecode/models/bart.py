"""BART: the forward passes of encoder and decoder, which Marian and mBART share, the config and the tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, Weight
from .config import ModelWeights, NamedTensors, TranslatorConfig, shapes_of_norms_and_products
from .products import activated_product, product, residual_norm


@dataclass(frozen=True)
class EncoderBlock:
    qkv: Weight
    heads: Heads
    out: Weight
    ln_self: Norm
    up: Weight
    down: Weight
    ln_feed: Norm


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
    wpe_ND: Any  # from the first position on: the two rows that BART never uses are left out; Marian's are sinusoids
    ln_embedding: Norm | None  # Marian has none
    blocks: tuple[Any, ...]


@dataclass(frozen=True)
class Weights(ModelWeights):
    """`encoder` is a `Stack`, too."""

    decoder: Stack
    embedding_scale: float
    activation: str
    lm_head: Weight

    @property
    def blocks(self):
        """The blocks that decoding keeps a cache for."""
        return self.decoder.blocks


def encode(w: Weights, ids_R, pos_R, caches, ops):
    """Source tokens and positions, one row each, no padding -> x_RD, what the decoder's cross attention reads."""
    x_RD = embed(ids_R, pos_R, w.encoder, w.embedding_scale, ops)
    for block, cache in zip(w.encoder.blocks, caches, strict=True):
        x_RD = encoder_layer(x_RD, block, cache, w.activation, ops)
    return x_RD


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> x_RD, which `lm_head` makes into logits; of the rows in pick_R.

    Each cache holds a layer's own keys and values, and by `bind_cross_attention` those of the source.
    """
    x_RD = embed(ids_R, pos_R, w.decoder, w.embedding_scale, ops)
    for block, cache in zip(w.decoder.blocks, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
        a_RX = cache.attend(ops, q_RHK)
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_self)
        a_RX = cache.cross.attend(ops, product(ops, x_RD, block.cross_q))
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.cross_out, block.ln_cross)
        x_RD = feed_forward(x_RD, block, w.activation, ops)
    return x_RD if pick_R is None else ops.gather_rows(x_RD, pick_R)


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.add_bias(ops.linear(x_RD, w.lm_head), w.lm_head.bias)


def encoder_layer(x_RD, block, cache, activation, ops, pick_R=None):
    """Self-attention and feed-forward layer, a norm behind each; of the rows in pick_R alone, once they have attended.

    LightSeq's fused layer is this: four products, and between them the ops that `ops` fuses.
    """
    q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
    a_RX = cache.attend(ops, q_RHK)
    if pick_R is not None:
        x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
    _, x_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_self)
    return feed_forward(x_RD, block, activation, ops)


def embed(ids_R, pos_R, stack, scale, ops):
    """x = scale * token + position, with BART's norm behind it. Marian drops what the op's norm computes."""
    norm = stack.ln_embedding or stack.blocks[0].ln_self
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, norm)
    return x_RD if stack.ln_embedding is None else h_RD


def feed_forward(x_RD, block, activation, ops):
    """x = LN(x + down(act(up(x)))): BART normalises after the residual, GPT-2 before the product."""
    f_RF = activated_product(ops, x_RD, block.up, activation)
    return residual_norm(ops, x_RD, f_RF, block.down, block.ln_feed)[1]


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BartConfig(TranslatorConfig):
    """The fields of a BART `config.json` that change what is computed, with transformers' defaults."""

    WIDTH, CONTEXT, FEED_FORWARD = "d_model", "max_position_embeddings", "decoder_ffn_dim"
    SIZES: ClassVar[tuple[str, ...]] = (
        "vocab_size", "max_position_embeddings", "d_model", "encoder_layers", "encoder_ffn_dim",
        "encoder_attention_heads", "decoder_layers", "decoder_ffn_dim", "decoder_attention_heads",
    )  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = ("scale_embedding", "tie_word_embeddings")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads",
    }  # fmt: skip
    UNTIED_TABLE_NAMES: ClassVar[tuple[str, str, str]] = (
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
    def table_names(self) -> tuple[str, str, str]:
        """The names of the tensors that hold the tokens of the source, those of the target, and the head."""
        if self.tie_word_embeddings:
            return ("shared.weight",) * 3
        return self.UNTIED_TABLE_NAMES


# ---- tensors ---------------------------------------------------------------------------------------------------------
# Files of BART, Marian and mBART: which tensors they hold, and where each goes.

PREFIX = "model."
LAYER = r"(encoder|decoder)\.layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ("final_logits_bias",)  # zeros where a file leaves it out


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: marks of versions, and tables that the config does without."""
    positions = "" if c.learns_positions else r"|(encoder|decoder)\.embed_positions\.weight"
    shared = "" if "shared.weight" in c.table_names else r"|shared\.weight"
    return rf"(encoder|decoder)\.version{positions}{shared}"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    pairs = zip(c.UNTIED_TABLE_NAMES, c.table_names, strict=True)
    return {copy: original for copy, original in pairs if copy != original}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `model.`."""
    D, V = c.d_model, c.vocab_size
    tables = zip(c.table_names, ((n, D) for n in (c.source_vocab_size, V, V)), strict=True)
    shapes: dict[str, tuple[int, ...]] = dict(tables) | {"final_logits_bias": (1, V)}
    for side, (layers, h) in c.stacks.items():
        F = getattr(c, f"{side}_ffn_dim")
        widths = {"q": h.H * h.K, "k": h.G * h.K, "v": h.G * h.U}
        if c.learns_positions:
            shapes[f"{side}.embed_positions.weight"] = (c.max_position_embeddings + 2, D)
        norms, products = [f"{side}.layernorm_embedding"] if c.has_embedding_norm else [], []
        norms += [f"{side}.layer_norm"] if c.has_final_norm else []
        for i in range(layers):
            layer = f"{side}.layers.{i}"
            attentions = ["self_attn", "encoder_attn"] if side == "decoder" else ["self_attn"]
            norms += [f"{layer}.{name}_layer_norm" for name in [*attentions, "final"]]
            products += [(f"{layer}.{a}.{p}_proj", width, D) for a in attentions for p, width in widths.items()]
            products += [(f"{layer}.{a}.out_proj", D, h.H * h.U) for a in attentions]
            products += [(f"{layer}.fc1", F, D), (f"{layer}.fc2", D, F)]
        shapes |= shapes_of_norms_and_products(D, norms, products)
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input are one weight."""
    named = NamedTensors(tensors, 1e-5)
    norm, weight = named.norm, named.weight

    def bind_block(layer, kind, heads, **cross):
        attention = f"{layer}.self_attn"
        return kind(
            weight(*(f"{attention}.{p}_proj" for p in "qkv")), heads, weight(f"{attention}.out_proj"),
            norm(f"{attention}_layer_norm"), weight(f"{layer}.fc1"), weight(f"{layer}.fc2"),
            norm(f"{layer}.final_layer_norm"), **cross,
        )  # fmt: skip

    def bind_cross_attention(layer, heads):
        attention = f"{layer}.encoder_attn"
        return {
            "cross_q": weight(f"{attention}.q_proj"), "cross_heads": heads,
            "cross_out": weight(f"{attention}.out_proj"), "ln_cross": norm(f"{attention}_layer_norm"),
        }  # fmt: skip

    def bind_stack(side, wte, blocks):
        wpe = tensors[f"{side}.embed_positions.weight"][2:] if c.learns_positions else c.sinusoids().astype(wte.dtype)
        return Stack(wte, wpe, norm(f"{side}.layernorm_embedding") if c.has_embedding_norm else None, blocks)

    heads = c.heads(c.encoder_attention_heads)
    encoder = tuple(bind_block(f"encoder.layers.{i}", EncoderBlock, heads) for i in range(c.encoder_layers))
    causal, seen = c.heads(c.decoder_attention_heads, window=c.attention_window), c.heads(c.decoder_attention_heads)
    layers = [f"decoder.layers.{i}" for i in range(c.decoder_layers)]
    decoder = tuple(bind_block(layer, DecoderBlock, causal, **bind_cross_attention(layer, seen)) for layer in layers)
    (source, target, lm_head), V = (tensors[name] for name in c.table_names), c.generated_vocab_size
    return Weights(
        bind_stack("decoder", target, decoder),
        math.sqrt(c.d_model) if c.scale_embedding else 1.0, c.activation_function,
        Weight(lm_head[:V], tensors["final_logits_bias"][0, :V], layout="oi"),
        encoder=bind_stack("encoder", source, encoder),
        cross_kv=weight(*(f"{layer}.encoder_attn.{p}_proj" for layer in layers for p in "kv")),
    )  # fmt: skip
