"""T5, mT5 and UMT5: the forward passes of encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Heads, Norm, Weight
from .products import activated, gated, product, residual_norm


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
class Weights:
    encoder: Stack
    decoder: Stack
    activation: str
    lm_head: Weight
    cross_kv: Weight  # keys and values of the source for all decoder layers, side by side: one product makes them

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
    """(x, h) behind self-attention; `norm` is that of what comes next."""
    q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
    return residual_norm(ops, x_RD, cache.attend(ops, q_RHK), block.out, norm)


def feed_forward(x_RD, h_RD, block, activation, ops):
    """(x, h) behind down(act(up h)), or behind down(act(gate h) * (up h)), with outputs of both in pairs."""
    f_RF = (gated if block.is_gated else activated)(ops, h_RD, block.up, activation)
    return residual_norm(ops, x_RD, f_RF, block.down, block.next_ln)
