"""UniLM's files: which tensors they hold, and where each goes. They are BERT's, with the head of its training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ops import Norm, Weight
from . import bert_tensors
from .bart import EncoderBlock
from .bert_tensors import LAYER, OPTIONAL, PREFIX  # noqa: F401  (what a family's table has)
from .unilm import MaskWeights, Weights

HEAD = "cls.predictions."
# Buffers of old files; the pooler and the head of next sentences, which decoding does not read.
IGNORED = r"embeddings\.position_ids|pooler\..*|cls\.seq_relationship\..*|cls2\..*|crit_mask_lm.*"
PLAIN = ("query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias")


def settled(c, stored: dict[str, Any], equal):
    """The config as the file answers it: how queries, keys and values are stored."""
    return replace(c, has_fast_qkv=any(name.endswith("attention.self.qkv_linear.weight") for name in stored))


def tied(c) -> dict[str, str]:
    """Tensors that a file may store in place of another: copies of the table and its bias, norms under old names."""
    copies = {f"{HEAD}decoder.weight": "embeddings.word_embeddings.weight", f"{HEAD}decoder.bias": f"{HEAD}bias"}
    return copies | bert_tensors.old_names(tensor_shapes(c))


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `bert.`."""
    D, h = c.hidden_size, c.heads(c.num_attention_heads)
    shapes = bert_tensors.tensor_shapes(replace(c, has_pooler=False, has_classifier=False))
    if c.has_fast_qkv:
        for name in [name for name in shapes if name.endswith(PLAIN)]:
            del shapes[name]
        for i in range(c.num_hidden_layers):
            attention = f"encoder.layer.{i}.attention.self."
            shapes |= {f"{attention}qkv_linear.weight": (h.H * h.K + h.G * (h.K + h.U), D),
                       f"{attention}q_bias": (h.H * h.K,), f"{attention}v_bias": (h.G * h.U,)}  # fmt: skip
    shapes |= {f"{HEAD}transform.dense.weight": (D, D), f"{HEAD}transform.dense.bias": (D,)}
    shapes |= {f"{HEAD}transform.LayerNorm.{part}": (D,) for part in ("weight", "bias")}
    return shapes | {f"{HEAD}bias": (c.vocab_size,)}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; projections that share an input are one weight."""
    h = c.heads(c.num_attention_heads)

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], c.layer_norm_eps)

    def weight(name):
        return Weight(tensors[f"{name}.weight"], tensors[f"{name}.bias"], layout="oi")

    def qkv(attention):
        if c.has_fast_qkv:  # a bias of keys would add the same to all scores of a query
            q_bias, v_bias = tensors[f"{attention}.q_bias"], tensors[f"{attention}.v_bias"]
            k_bias = np.zeros(h.G * h.K, q_bias.dtype)
            whole = np.concatenate([q_bias, k_bias, v_bias])
            return Weight(tensors[f"{attention}.qkv_linear.weight"], whole, layout="oi")
        parts = [f"{attention}.{name}" for name in ("query", "key", "value")]
        data, bias = ([tensors[f"{part}.{kind}"] for part in parts] for kind in ("weight", "bias"))
        return Weight(tuple(data), np.concatenate(bias), layout="oi")

    blocks = []
    for i in range(c.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        attention = f"{layer}.attention"
        blocks.append(
            EncoderBlock(
                qkv(f"{attention}.self"), h,
                weight(f"{attention}.output.dense"), norm(f"{attention}.output.LayerNorm"),
                weight(f"{layer}.intermediate.dense"), weight(f"{layer}.output.dense"),
                norm(f"{layer}.output.LayerNorm"),
            )
        )  # fmt: skip
    word_VD, position_ND, type_XD = (
        tensors[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type")
    )
    place_XD = np.concatenate([position_ND + type_XD[c.source_type_id], position_ND + type_XD[c.target_type_id]])
    shared: dict[str, Any] = dict(
        wte_VD=word_VD, place_XD=place_XD, target_place=c.max_position_embeddings,
        ln_embedding=norm("embeddings.LayerNorm"), blocks=tuple(blocks), activation=c.activation_function,
        transform=weight(f"{HEAD}transform.dense"), ln_transform=norm(f"{HEAD}transform.LayerNorm"),
        lm_head=Weight(word_VD, tensors[f"{HEAD}bias"], layout="oi"),
    )  # fmt: skip
    if c.pos_shift:
        return Weights(**shared)
    # Behind the token at position p, of a source or of a target, stands [MASK] at p + 1: behind the last one, nothing.
    mask_ND = word_VD[c.mask_token_id] + place_XD[c.max_position_embeddings + 1 :]
    behind_ND = np.concatenate([mask_ND, np.zeros_like(mask_ND[:1])])
    return MaskWeights(**shared, query_ND=np.concatenate([behind_ND, behind_ND]))
