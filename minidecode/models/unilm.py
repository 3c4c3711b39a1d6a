"""UniLM: the forward pass of a BERT that reads a source both ways, and writes a target from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Norm, Weight
from .bart import EncoderBlock, feed_forward
from .products import activated, product, residual_norm


@dataclass(frozen=True)
class Weights:
    wte_VD: Any
    place_XD: Any  # row p: position p with the type of sources; row P + p: with that of targets, for P positions
    target_place: int  # P
    ln_embedding: Norm
    blocks: tuple[EncoderBlock, ...]
    activation: str
    transform: Weight
    ln_transform: Norm
    lm_head: Weight


@dataclass(frozen=True)
class MaskWeights(Weights):
    """Of a model that predicts by a row of its own: behind each token, [MASK] at the next position."""

    query_ND: Any  # by the place of the token


def forward(w: Weights, ids_R, place_R, caches, ops, pick_R=None):
    """Token ids and their places in the table, one row each, no padding -> x_RD, which `lm_head` makes into logits.

    Rows of a source see all of it, those of a target what is before them. What predicts the next token is the token's
    own row, or a row of [MASK] behind it, which no other row sees. pick_R: the tokens behind which it is asked for.
    """
    _, x_RD = ops.embed_norm(ids_R, place_R, w.wte_VD, w.place_XD, 1.0, w.ln_embedding)
    query_ND = getattr(w, "query_ND", None)
    if query_ND is not None:
        behind_R = place_R if pick_R is None else place_R[pick_R]
        _, query_RD = ops.embed_norm(behind_R, behind_R, query_ND, None, 1.0, w.ln_embedding)
        x_RD = caches[0].joined(ops, x_RD, query_RD)
    for block, cache in zip(w.blocks, caches, strict=True):
        is_last = block is w.blocks[-1]
        q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
        if query_ND is not None:
            a_RX = cache.attend(ops, q_RHK, queries_alone=is_last)
            x_RD = cache.queries(ops, x_RD) if is_last else x_RD
        else:
            a_RX = cache.attend(ops, q_RHK)
            if is_last and pick_R is not None:
                x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_self)
        x_RD = feed_forward(x_RD, block, w.activation, ops)
    return x_RD


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV: by BERT's head, a layer of its own and the table of tokens."""
    t_RD = activated(ops, x_RD, w.transform, w.activation)
    _, h_RD = ops.residual_norm(t_RD, None, None, w.ln_transform)
    return ops.add_bias(ops.linear(h_RD, w.lm_head), w.lm_head.bias)
