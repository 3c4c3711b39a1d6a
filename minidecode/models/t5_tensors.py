"""T5's files: which tensors they hold, and where each goes. mT5 and UMT5 have the same names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ops import Norm, PositionBias, Weight
from .t5 import DecoderBlock, EncoderBlock, Stack, Weights

PREFIX = ""
IGNORED = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"  # of the first files
LAYER = r"(encoder|decoder)\.block\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
UPS = {True: ("wi_0", "wi_1"), False: ("wi",)}  # gated or not
BIAS = "layer.0.SelfAttention.relative_attention_bias.weight"


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    copies = ["decoder.embed_tokens", "encoder.embed_tokens", *([] if c.has_own_head else ["lm_head"])]
    return {f"{copy}.weight": "shared.weight" for copy in copies}


def settled(c, stored: dict[str, Any], equal):
    """The config as the file answers it: the head is the model's own if the file has one with other numbers.

    What tie_word_embeddings says is no answer: transformers 5 writes true of every T5. equal: compares two tensors.
    """
    table = next((stored[name] for name in ("shared.weight", *tied(c)) if name in stored), None)
    if table is None or "lm_head.weight" not in stored or stored["lm_head.weight"].shape != table.shape:
        return c
    return replace(c, own_head=not equal(stored["lm_head.weight"], table))


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D, F, V, h = c.d_model, c.d_ff, c.vocab_size, c.heads(c.num_heads)
    shapes: dict[str, tuple[int, ...]] = {"shared.weight": (V, D)}
    if c.has_own_head:
        shapes["lm_head.weight"] = (V, D)
    for side, (layers, _) in c.stacks.items():
        attentions = ["SelfAttention", "EncDecAttention"] if side == "decoder" else ["SelfAttention"]
        for i in range(layers):
            for k, name in enumerate([*attentions, "DenseReluDense"]):
                layer = f"{side}.block.{i}.layer.{k}"
                shapes[f"{layer}.layer_norm.weight"] = (D,)
                widths = {"q": (h.H * h.K, D), "k": (h.G * h.K, D), "v": (h.G * h.U, D), "o": (D, h.H * h.U)}
                parts = widths if name in attentions else dict.fromkeys(UPS[c.is_gated], (F, D)) | {"wo": (D, F)}
                shapes |= {f"{layer}.{name}.{part}.weight": shape for part, shape in parts.items()}
            if i == 0 or c.has_bias_in_each_block:
                shapes[f"{side}.block.{i}.{BIAS}"] = (c.relative_attention_num_buckets, h.H)
        shapes[f"{side}.final_layer_norm.weight"] = (D,)
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input become one matrix."""

    def norm(name, scale=1.0):
        gain_D = tensors[f"{name}.weight"]
        return Norm(gain_D if scale == 1.0 else gain_D * gain_D.dtype.type(scale), None, c.layer_norm_epsilon)

    def weight(*names):
        data = [tensors[f"{name}.weight"] for name in names]
        return Weight(np.concatenate(data) if len(data) > 1 else data[0], layout="oi")

    def weight_up(name):
        rows = [tensors[f"{name}.{part}.weight"] for part in UPS[c.is_gated]]
        return Weight(np.stack(rows, 1).reshape(-1, c.d_model) if c.is_gated else rows[0], layout="oi")

    def blocks(side, layers, two_sided, window=None):
        buckets = c.bucket_of_distance(two_sided)
        for i in range(layers):
            block, last = f"{side}.block.{i}", f"{side}.block.{i}.layer.{1 if two_sided else 2}"
            table_PH = tensors[f"{side}.block.{i if c.has_bias_in_each_block else 0}.{BIAS}"]
            bias = PositionBias(np.ascontiguousarray(table_PH.T)[None], *buckets)
            attention, up = f"{block}.layer.0.SelfAttention", f"{last}.DenseReluDense"
            next_ln = f"{side}.block.{i + 1}.layer.0.layer_norm" if i + 1 < layers else f"{side}.final_layer_norm"
            parts = (
                norm(f"{block}.layer.0.layer_norm"), weight(*(f"{attention}.{p}" for p in "qkv")),
                replace(c.heads(c.num_heads, window=window), bias=bias), weight(f"{attention}.o"),
                norm(f"{last}.layer_norm"), c.is_gated, weight_up(up), weight(f"{up}.wo"),
                norm(next_ln, c.logit_scale if next_ln.startswith("decoder.final") else 1.0),  # logits', in the gain
            )  # fmt: skip
            cross = f"{block}.layer.1.EncDecAttention"
            yield EncoderBlock(*parts) if two_sided else DecoderBlock(
                *parts, weight(f"{cross}.q"), c.heads(c.num_heads), weight(f"{cross}.o"),
                norm(f"{block}.layer.1.layer_norm"),
            )  # fmt: skip

    encoder = tuple(blocks("encoder", c.num_layers, two_sided=True))
    decoder = tuple(blocks("decoder", c.decoder_layers, two_sided=False, window=c.attention_window))
    wte = tensors["shared.weight"]
    sources = (f"decoder.block.{i}.layer.1.EncDecAttention.{p}" for i in range(c.decoder_layers) for p in "kv")
    return Weights(
        Stack(wte, encoder), Stack(wte, decoder), c.activation_function,
        Weight(tensors["lm_head.weight"] if c.has_own_head else wte, layout="oi"), weight(*sources),
    )  # fmt: skip
