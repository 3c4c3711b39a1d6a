"""BERT: the forward pass, an encoder whose rows are the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Norm, Weight
from .bart import EncoderBlock, encoder_layer
from .products import activated, product


@dataclass(frozen=True)
class Weights:
    wte_VD: Any
    place_XD: Any  # row t*P + p: the embedding of position p plus that of token type t, for P positions
    ln_embedding: Norm
    blocks: tuple[EncoderBlock, ...]
    activation: str
    pooler: Weight | None
    classifier: Weight | None


def forward(w: Weights, ids_R, place_R, caches, ops, pick_R=None):
    """Token ids and their places in the table, one row each, no padding -> x_RD; of the rows in pick_R alone.

    Every row looks at all rows of its text. After the last layer's attention, rows that are not asked for are left out.
    """
    _, x_RD = ops.embed_norm(ids_R, place_R, w.wte_VD, w.place_XD, 1.0, w.ln_embedding)
    for block, cache in zip(w.blocks, caches, strict=True):
        x_RD = encoder_layer(x_RD, block, cache, w.activation, ops, pick_R if block is w.blocks[-1] else None)
    return x_RD


def pooled(w: Weights, x_RD, ops):
    """First rows of texts -> tanh(W x + b), which BERT was trained to say something of the whole text."""
    return activated(ops, x_RD, w.pooler, "tanh")


def classify(w: Weights, x_RD, ops):
    """Pooled rows, or the rows of tokens -> a number for each label."""
    assert w.classifier is not None  # a model without one has been refused
    return ops.add_bias(product(ops, x_RD, w.classifier), w.classifier.bias)
