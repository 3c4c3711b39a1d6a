"""Llama's files: which tensors they hold, and where each goes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops import Norm, Weight
from .llama import Block, Weights

PREFIX = "model."
IGNORED = r".*rotary_emb\.inv_freq"  # angles that old files carry
LAYER = r"layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
AT_ONCE = 2**12  # positions whose angles are computed together


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {"lm_head.weight": "embed_tokens.weight"} if c.tie_word_embeddings else {}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `model.`."""
    D, F, V, h = c.hidden_size, c.intermediate_size, c.vocab_size, c.heads(c.num_attention_heads)
    shapes = {"embed_tokens.weight": (V, D), "norm.weight": (D,)}
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (V, D)
    keys, values = ("k", h.G * h.K), ("v", h.G * h.U)
    products = [(f"self_attn.{p}_proj", n, D, c.qkv_bias) for p, n in (("q", h.H * h.K), keys, values)]
    products += [("self_attn.o_proj", D, h.H * h.U, c.out_bias), ("mlp.gate_proj", F, D, c.mlp_bias),
                 ("mlp.up_proj", F, D, c.mlp_bias), ("mlp.down_proj", D, F, c.mlp_bias)]  # fmt: skip
    for i in range(c.num_hidden_layers):
        for name, n_out, n_in, has_bias in products:
            shapes[f"layers.{i}.{name}.weight"] = (n_out, n_in)
            shapes |= {f"layers.{i}.{name}.bias": (n_out,)} if has_bias else {}
        shapes |= {f"layers.{i}.{name}.weight": (D,) for name in ("input_layernorm", "post_attention_layernorm")}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; gate and up become pairs of one matrix's outputs."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], None, c.rms_norm_eps)

    def weight(*names, join=np.concatenate):
        data = [tensors[f"{name}.weight"] for name in names]
        biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
        data, bias = (parts if len(parts) < 2 else [join(parts)] for parts in (data, biases))
        return Weight(data[0], bias[0] if bias else None, layout="oi")

    def in_pairs(parts):
        return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])

    heads = c.heads(c.num_attention_heads, window=c.attention_window)
    blocks = []
    for i in range(c.num_hidden_layers):
        attention, mlp = f"layers.{i}.self_attn", f"layers.{i}.mlp"
        qkv = weight(*(f"{attention}.{p}_proj" for p in "qkv"))
        next_norm = f"layers.{i + 1}.input_layernorm" if i + 1 < c.num_hidden_layers else "norm"
        blocks.append(
            Block(
                norm(f"layers.{i}.input_layernorm"), Weight(qkv.data, layout="oi"), qkv.bias, heads,
                weight(f"{attention}.o_proj"), norm(f"layers.{i}.post_attention_layernorm"),
                weight(f"{mlp}.gate_proj", f"{mlp}.up_proj", join=in_pairs), weight(f"{mlp}.down_proj"),
                norm(next_norm),
            )
        )  # fmt: skip
    wte_VD = tensors["embed_tokens.weight"]
    lm_head = wte_VD if c.tie_word_embeddings else tensors["lm_head.weight"]
    return Weights(
        wte_VD, turns(c, heads.K, wte_VD.dtype), tuple(blocks), c.activation_function,
        Weight(lm_head, layout="oi"),
    )  # fmt: skip


def turns(c, K: int, dtype) -> np.ndarray:
    """turns_NK: the cosines of p f_i, then the sines, for each position p; computed in float64, some at a time."""
    turns_NK, f_X = np.empty((c.context, K), dtype), c.frequencies(K)
    for first in range(0, c.context, AT_ONCE):
        angle_NX = np.arange(first, min(first + AT_ONCE, c.context))[:, None] * f_X
        here_NK = turns_NK[first : first + AT_ONCE]
        here_NK[:, : K // 2], here_NK[:, K // 2 :] = np.cos(angle_NX), np.sin(angle_NX)
    return turns_NK
