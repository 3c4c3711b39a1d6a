"""BART and Marian: the forward passes of encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Heads, Norm, Weight
from .products import activated, product, residual_norm


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
class Weights:
    encoder: Stack
    decoder: Stack
    embedding_scale: float
    activation: str
    lm_head: Weight
    cross_kv: Weight  # keys and values of the source for all decoder layers, side by side: one product makes them

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

    Each cache holds a layer's own keys and values, and by `cross` those of the source.
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
    f_RF = activated(ops, x_RD, block.up, activation)
    return residual_norm(ops, x_RD, f_RF, block.down, block.ln_feed)[1]
