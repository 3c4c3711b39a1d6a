"""Llama and its like (SmolLM2, Qwen2, Mistral): the forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Heads, Norm, Weight
from .products import gated, product, residual_norm


@dataclass(frozen=True)
class Block:
    norm_1: Norm
    qkv: Weight  # without its bias, which is added in front of the rotation
    qkv_bias_X: Any
    heads: Heads
    out: Weight
    norm_2: Norm
    up: Weight  # of the gate and of what it lets through, in pairs of outputs
    down: Weight
    next_norm: Norm  # the norm that reads this block's result: the next block's norm_1, or the final one


@dataclass(frozen=True)
class Weights:
    wte_VD: Any
    turns_NK: Any  # by position, the cosines and the sines by which queries and keys are turned
    blocks: tuple[Block, ...]
    activation: str
    lm_head: Weight


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    GPT-2's forward pass with RMS norms, gated feed-forward layers, and positions that turn queries and keys in place of
    positions that are added to tokens. Caches get keys that are turned already.
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.wte_VD, None, 1.0, w.blocks[0].norm_1)
    for block, cache in zip(w.blocks, caches, strict=True):
        qkv_RX = product(ops, h_RD, block.qkv)
        qkv_RX = ops.rotate_heads(qkv_RX, block.qkv_bias_X, block.heads, pos_R, w.turns_NK)
        q_RHK = cache.append(ops, qkv_RX, h_RD)
        a_RX = cache.attend(ops, q_RHK)
        if pick_R is not None and block is w.blocks[-1]:
            x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.norm_2)
        f_RF = gated(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, block.next_norm)
    return h_RD


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)
