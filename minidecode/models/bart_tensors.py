"""Files of BART, Marian and mBART: which tensors they hold, and where each goes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ops import Norm, Weight
from .bart import DecoderBlock, EncoderBlock, Stack, Weights

PREFIX = "model."
LAYER = r"(encoder|decoder)\.layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ("final_logits_bias",)  # zeros where a file leaves it out


def ignored(c) -> str:
    """What a file may hold and no model uses: marks of versions, and tables that the config does without."""
    positions = "" if c.learns_positions else r"|(encoder|decoder)\.embed_positions\.weight"
    shared = "" if "shared.weight" in c.tables else r"|shared\.weight"
    return rf"(encoder|decoder)\.version{positions}{shared}"


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {copy: original for copy, original in zip(c.TABLES, c.tables, strict=True) if copy != original}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `model.`."""
    D, V = c.d_model, c.vocab_size
    tables = zip(c.tables, ((n, D) for n in (c.source_vocab_size, V, V)), strict=True)
    shapes: dict[str, tuple[int, ...]] = dict(tables) | {"final_logits_bias": (1, V)}
    for side, (layers, h) in c.stacks.items():
        F = getattr(c, f"{side}_ffn_dim")
        widths = {"q": h.H * h.K, "k": h.G * h.K, "v": h.G * h.U}
        if c.learns_positions:
            shapes[f"{side}.embed_positions.weight"] = (c.max_position_embeddings + 2, D)
        norms, products = [f"{side}.layernorm_embedding"] if c.has_embedding_norm else [], []
        norms += [f"{side}.layer_norm"] if c.has_final_norm else []
        for i in range(layers):
            layer = f"{side}.layers.{i}"
            attentions = ["self_attn", "encoder_attn"] if side == "decoder" else ["self_attn"]
            norms += [f"{layer}.{name}_layer_norm" for name in [*attentions, "final"]]
            products += [(f"{layer}.{a}.{p}_proj", width, D) for a in attentions for p, width in widths.items()]
            products += [(f"{layer}.{a}.out_proj", D, h.H * h.U) for a in attentions]
            products += [(f"{layer}.fc1", F, D), (f"{layer}.fc2", D, F)]
        for name in norms:
            shapes |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
        for name, n_out, n_in in products:
            shapes |= {f"{name}.weight": (n_out, n_in), f"{name}.bias": (n_out,)}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input are one weight.

    Its data is a tuple then: device/low_precision.py joins the matrices.
    """

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-5)

    def weight(*names):
        data, bias = ([tensors[f"{n}.{kind}"] for n in names] for kind in ("weight", "bias"))
        if len(names) == 1:
            return Weight(data[0], bias[0], layout="oi")
        return Weight(tuple(data), np.concatenate(bias), layout="oi")

    def block(layer, kind, heads, **cross):
        attention = f"{layer}.self_attn"
        return kind(
            weight(*(f"{attention}.{p}_proj" for p in "qkv")), heads, weight(f"{attention}.out_proj"),
            norm(f"{attention}_layer_norm"), weight(f"{layer}.fc1"), weight(f"{layer}.fc2"),
            norm(f"{layer}.final_layer_norm"), **cross,
        )  # fmt: skip

    def cross(layer, heads):
        attention = f"{layer}.encoder_attn"
        return {
            "cross_q": weight(f"{attention}.q_proj"), "cross_heads": heads,
            "cross_out": weight(f"{attention}.out_proj"), "ln_cross": norm(f"{attention}_layer_norm"),
        }  # fmt: skip

    def stack(side, wte, blocks):
        wpe = tensors[f"{side}.embed_positions.weight"][2:] if c.learns_positions else c.sinusoids().astype(wte.dtype)
        return Stack(wte, wpe, norm(f"{side}.layernorm_embedding") if c.has_embedding_norm else None, blocks)

    heads = c.heads(c.encoder_attention_heads)
    encoder = tuple(block(f"encoder.layers.{i}", EncoderBlock, heads) for i in range(c.encoder_layers))
    own, seen = c.heads(c.decoder_attention_heads, window=c.attention_window), c.heads(c.decoder_attention_heads)
    layers = [f"decoder.layers.{i}" for i in range(c.decoder_layers)]
    decoder = tuple(block(layer, DecoderBlock, own, **cross(layer, seen)) for layer in layers)
    (source, target, lm_head), V = (tensors[name] for name in c.tables), c.head_size
    return Weights(
        stack("encoder", source, encoder), stack("decoder", target, decoder),
        math.sqrt(c.d_model) if c.scale_embedding else 1.0, c.activation_function,
        Weight(lm_head[:V], tensors["final_logits_bias"][0, :V], layout="oi"),
        weight(*(f"{layer}.encoder_attn.{p}_proj" for layer in layers for p in "kv")),
    )  # fmt: skip
