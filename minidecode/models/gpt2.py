"""GPT-2: the forward pass.

`minidecode/page.py` has it in plain NumPy, with its cache and its searches: read that page first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Heads, Norm, Weight
from .products import activated, product, residual_norm


@dataclass(frozen=True)
class Block:
    ln_1: Norm
    qkv: Weight
    heads: Heads
    out: Weight
    ln_2: Norm
    up: Weight
    down: Weight
    next_ln: Norm  # the norm that reads this block's result: the next block's ln_1, or the final one


@dataclass(frozen=True)
class Weights:
    wte_VD: Any
    wpe_ND: Any
    blocks: tuple[Block, ...]
    activation: str
    lm_head: Weight


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    A prefill (all tokens of all prompts, no padding), a decode step (one row per beam) and decoding without a cache
    are this same call: what a row may look at is its cache's affair. Rows look at each other in attention alone: after
    the last one, those that are not asked for are left out. (A prefill asks for each prompt's last row: it is spared
    three quarters of the last block.)
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, w.blocks[0].ln_1)
    return layers(w, x_RD, h_RD, caches, ops, pick_R)


def layers(w: Weights, x_RD, h_RD, caches, ops, pick_R):
    """All layers: x_RD is the residual stream, h_RD what the first layer's norm makes of it."""
    for block, cache in zip(w.blocks, caches, strict=True):
        qkv_RX = product(ops, h_RD, block.qkv)
        q_RHK = cache.append(ops, qkv_RX, h_RD)  # bias, split to heads, keys and values kept
        a_RX = cache.attend(ops, q_RHK)
        if pick_R is not None and block is w.blocks[-1]:
            x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_2)
        f_RF = activated(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, block.next_ln)
    return h_RD


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)
