"""fairseq's Transformer: the forward passes of encoder and decoder, with norms behind the sublayers or before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Norm, Weight
from .products import activated, product, residual_norm


@dataclass(frozen=True)
class Stack:
    """The encoder or the decoder, of BART's blocks.

    Each norm of a block is of the sum that its sublayer ends in: post-norm's own, or pre-norm's of the next sublayer.
    """

    wte_VD: Any
    wpe_ND: Any  # from the first position on; None: no positions
    ln_embedding: Norm | None
    ln_first: Norm  # of the first sublayer, before it in pre-norm; without effect in post-norm
    is_pre_norm: bool
    ends_in_norm: bool  # or in the sum of the last sublayer
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
    stack = w.encoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, cache in zip(stack.blocks, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = add_norm(x_RD, cache.attend(ops, q_RHK), block.out, block.ln_self, stack, ops)
        f_RF = activated(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = add_norm(x_RD, f_RF, block.down, block.ln_feed, stack, ops)
    return h_RD if stack.ends_in_norm else x_RD


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> x_RD, which `lm_head` makes into logits; of the rows in pick_R.

    Each cache holds a layer's own keys and values, and by `cross` those of the source.
    """
    stack = w.decoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, cache in zip(stack.blocks, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = add_norm(x_RD, cache.attend(ops, q_RHK), block.out, block.ln_self, stack, ops)
        a_RX = cache.cross.attend(ops, product(ops, h_RD, block.cross_q))
        x_RD, h_RD = add_norm(x_RD, a_RX, block.cross_out, block.ln_cross, stack, ops)
        f_RF = activated(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = add_norm(x_RD, f_RF, block.down, block.ln_feed, stack, ops)
    x_RD = h_RD if stack.ends_in_norm else x_RD
    return x_RD if pick_R is None else ops.gather_rows(x_RD, pick_R)


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(x_RD, w.lm_head)


def embed(ids_R, pos_R, stack, scale, ops):
    """(x, h): (e, LN(e)) in pre-norm, (e, e) in post-norm; e = scale * token + position, and a norm may follow it."""
    norm = stack.ln_embedding or stack.ln_first
    e_RD, h_RD = ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, norm)
    if stack.ln_embedding:
        e_RD = h_RD
        if stack.is_pre_norm:
            return ops.residual_norm(e_RD, None, None, stack.ln_first)
    return (e_RD, h_RD) if stack.is_pre_norm else (e_RD, e_RD)


def add_norm(x_RD, a_RX, weight, norm, stack, ops):
    """(x', h'): h' = LN(x + a W + bias), and x' is the sum itself in pre-norm and h' in post-norm."""
    x_RD, h_RD = residual_norm(ops, x_RD, a_RX, weight, norm)
    return (x_RD if stack.is_pre_norm else h_RD), h_RD
