"""mBART: the forward passes of encoder and decoder. It is BART with a norm in front of each sublayer, not behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..ops import Norm
from . import bart
from .bart import LAYER, OPTIONAL, PREFIX, BartConfig, ignored_tensors, lm_head, tensor_shapes, tied_tensors
from .config import NamedTensors
from .products import activated_product, product, residual_norm

__all__ = [
    "LAYER", "OPTIONAL", "PREFIX", "Stack", "Weights", "bind", "encode", "forward", "ignored_tensors", "lm_head",
    "tensor_shapes", "tied_tensors",
]  # fmt: skip


@dataclass(frozen=True)
class Stack(bart.Stack):
    """The encoder or the decoder. A block's `ln_self`, `ln_cross` and `ln_feed` are in front of these sublayers."""

    next_ln: tuple[Norm, ...]  # for each block the norm behind it: the next block's ln_self, at the end the final norm


@dataclass(frozen=True)
class Weights(bart.Weights):
    decoder: Stack


def encode(w: Weights, ids_R, pos_R, caches, ops):
    """Source tokens and positions, one row each, no padding -> h_RD, what the decoder's cross attention reads."""
    stack = w.encoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, next_ln, cache in zip(stack.blocks, stack.next_ln, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = residual_norm(ops, x_RD, cache.attend(ops, q_RHK), block.out, block.ln_feed)
        f_RF = activated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, next_ln)
    return h_RD


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R.

    Each cache holds a layer's own keys and values, and by `cross` those of the source.
    """
    stack = w.decoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, next_ln, cache in zip(stack.blocks, stack.next_ln, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = residual_norm(ops, x_RD, cache.attend(ops, q_RHK), block.out, block.ln_cross)
        a_RX = cache.cross.attend(ops, product(ops, h_RD, block.cross_q))
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.cross_out, block.ln_feed)
        f_RF = activated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, next_ln)
    return h_RD if pick_R is None else ops.gather_rows(h_RD, pick_R)


def embed(ids_R, pos_R, stack, scale, ops):
    """(x, h): x = LN(scale * token + position), h = LN(x) of the first block. There are two norms in a row."""
    _, x_RD = ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, stack.ln_embedding)
    return ops.residual_norm(x_RD, None, None, stack.blocks[0].ln_self)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MBartConfig(BartConfig):
    """The fields of an mBART `config.json`: BART's, with norms in front of the sublayers, and one at either end."""

    FIXED: ClassVar[dict[str, bool]] = {
        "normalize_before": True, "normalize_embedding": True, "add_final_layer_norm": True,
        "static_position_embeddings": False,
    }  # fmt: skip


# ---- tensors ---------------------------------------------------------------------------------------------------------
# mBART's files: BART's tensors, and a norm at the end of either side.


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read."""

    def bind_stack(side, weights):
        final = NamedTensors(tensors, 1e-5).norm(f"{side}.layer_norm")
        return Stack(**vars(weights), next_ln=(*(block.ln_self for block in weights.blocks[1:]), final))

    w = bart.bind(c, tensors)
    return Weights(
        **vars(w) | {"encoder": bind_stack("encoder", w.encoder), "decoder": bind_stack("decoder", w.decoder)}
    )
