"""ProphetNet: the forward passes of encoder and decoder.

It was trained to predict several tokens ahead, each by a stream of rows of its own. To generate, only two rows of a
token are needed: the main stream's, which is kept, and that of the first predict stream, which is a query row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import PositionBias, Weight
from . import bart
from .bart import embed, encode, feed_forward
from .products import activated, product, residual_norm

__all__ = ["DecoderBlock", "Weights", "encode", "forward", "lm_head"]


@dataclass(frozen=True)
class DecoderBlock(bart.DecoderBlock):
    relative: Weight  # of each row: what is added to its scores, by head and bucket of the distance


@dataclass(frozen=True)
class Weights(bart.Weights):
    query_ND: Any  # the query row behind position n, before its norm: it stands for no token
    bucket_L: Any  # of each distance


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> x_RD of the query rows behind them, or behind those in pick_R.

    `lm_head` makes them into logits. A query row stands one position behind its token, sees all tokens up to that one,
    and itself. Of the last layer's token rows keys and values alone are needed.
    """
    query_pos_R = pos_R if pick_R is None else pos_R[pick_R]
    kept_RD = embed(ids_R, pos_R, w.decoder, w.embedding_scale, ops)
    _, query_RD = ops.embed_norm(query_pos_R, query_pos_R, w.query_ND, None, 1.0, w.decoder.ln_embedding)
    x_RD = caches[0].own.joined(ops, kept_RD, query_RD)
    for block, cache in zip(w.decoder.blocks, caches, strict=True):
        is_last = block is w.decoder.blocks[-1]
        bias = position_bias(x_RD, block, w.bucket_L, ops)
        q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
        a_RX = cache.attend(ops, q_RHK, bias, queries_alone=is_last)
        if is_last:
            x_RD = cache.own.queries(ops, x_RD)
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
    r_RX = activated(ops, x_RD, block.relative, "linear")
    return PositionBias(r_RX.reshape(len(x_RD), block.heads.H, -1), bucket_L)
