"""GPT-2: what its files hold, and its forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ops import Heads, Norm, Weight


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
    unembed: Weight


def forward(w: Weights, ids_R, pos_R, memories, ops, pick_R):
    """Token ids and positions, one row each -> logits_RV of the rows in pick_R.

    A prefill (all tokens of all prompts, no padding), a decode step (one row per beam) and decoding without a cache
    are this same call: what a row may look at is its memory's affair.
    """
    x_RD = ops.embed(ids_R, pos_R, w.wte_VD, w.wpe_ND)
    h_RD = ops.layer_norm(x_RD, w.blocks[0].ln_1)
    for block, memory in zip(w.blocks, memories, strict=True):
        qkv_RX = ops.linear(h_RD, block.qkv)
        q_RHK = memory.append(ops, qkv_RX, h_RD)  # bias, split to heads, keys and values kept
        a_RX = memory.attend(ops, q_RHK)
        x_RD, h_RD = ops.residual_norm(x_RD, ops.linear(a_RX, block.out), block.out.bias, block.ln_2)
        f_RF = ops.bias_activation(ops.linear(h_RD, block.up), block.up.bias, w.activation)
        x_RD, h_RD = ops.residual_norm(x_RD, ops.linear(f_RF, block.down), block.down.bias, block.next_ln)
    return ops.linear(ops.take(h_RD, pick_R), w.unembed)


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `transformer.`."""
    D, F, V = c.n_embd, c.n_inner, c.vocab_size
    shapes = {"wte.weight": (V, D), "wpe.weight": (c.n_positions, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (V, D)
    for i in range(c.n_layer):
        for name, n_in, n_out in [("attn.c_attn", D, 3 * D), ("attn.c_proj", D, D),
                                  ("mlp.c_fc", D, F), ("mlp.c_proj", F, D)]:  # fmt: skip
            shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.weight": (D,), f"h.{i}.{name}.bias": (D,)}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], c.layer_norm_epsilon)

    def weight(name):
        return Weight(tensors[f"{name}.weight"], tensors[f"{name}.bias"], layout="io")

    K = c.n_embd // c.n_head
    blocks = []
    for i in range(c.n_layer):
        scale = K**-0.5 if c.scale_attn_weights else 1.0
        if c.scale_attn_by_inverse_layer_idx:
            scale /= i + 1
        next_ln = f"h.{i + 1}.ln_1" if i + 1 < c.n_layer else "ln_f"
        blocks.append(
            Block(
                norm(f"h.{i}.ln_1"), weight(f"h.{i}.attn.c_attn"), Heads(c.n_head, c.n_head, K, K, scale),
                weight(f"h.{i}.attn.c_proj"), norm(f"h.{i}.ln_2"), weight(f"h.{i}.mlp.c_fc"),
                weight(f"h.{i}.mlp.c_proj"), norm(next_ln),
            )
        )  # fmt: skip
    unembed = tensors["wte.weight" if c.tie_word_embeddings else "lm_head.weight"]
    return Weights(
        tensors["wte.weight"], tensors["wpe.weight"], tuple(blocks), c.activation_function, Weight(unembed, layout="oi")
    )
