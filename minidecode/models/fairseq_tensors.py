"""Files of fairseq's Transformer, and of FSMT, which has the same names: their tensors, and where each goes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..ops import Norm, Weight
from .bart import DecoderBlock, EncoderBlock
from .bart_tensors import LAYER, PREFIX, tied
from .config import FairseqConfig
from .fairseq import Stack, Weights

__all__ = ["LAYER", "PREFIX", "bind", "ignored", "settled", "tensor_shapes", "tied"]  # PREFIX is FSMT's alone

OPTIONAL = ()
IS_WHOLE = True  # every tensor of a checkpoint takes part in its answers: one that is unknown is of another model
SUBLAYERS = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}


def settled(c: FairseqConfig, stored: dict[str, Any], equal) -> FairseqConfig:
    """The config as the file answers it: FSMT's head is the target's table, unless the file has a head of its own."""
    has_head = c.TABLES[2] in stored or PREFIX + c.TABLES[2] in stored
    return c if has_head or c.model_type != "fsmt" else replace(c, share_decoder_input_output_embed=True)


def ignored(c: FairseqConfig) -> str:
    """Buffers: a version, and the sinusoids, which are computed."""
    computed = "".join(f"|{side}\\.embed_positions\\.weight" for side in SUBLAYERS if not c.learns_positions(side))
    return rf"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)){computed}"


def tensor_shapes(c: FairseqConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D = c.width
    tables = zip(c.tables, ((V, D) for V in (c.src_vocab_size, c.vocab_size, c.vocab_size)), strict=True)
    shapes: dict[str, tuple[int, ...]] = dict(tables)
    for side, (layers, h) in c.stacks.items():
        F, positions = getattr(c, f"{side}_ffn_embed_dim"), c.source_context if side == "encoder" else c.context
        if c.learns_positions(side):
            shapes[f"{side}.embed_positions.weight"] = (positions + 2, D)
        norms = [f"{side}.layernorm_embedding"] if c.layernorm_embedding else []
        norms, products = norms + ([f"{side}.layer_norm"] if c.has_final_norm(side) else []), []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            norms += [f"{layer}.{name}_layer_norm" for name in SUBLAYERS[side]]
            for attention in (f"{layer}.{name}" for name in SUBLAYERS[side][:-1]):
                widths = {"q": (h.H * h.K, D), "k": (h.G * h.K, D), "v": (h.G * h.U, D), "out": (D, h.H * h.U)}
                products += [(f"{attention}.{part}_proj", shape) for part, shape in widths.items()]
            products += [(f"{layer}.fc1", (F, D)), (f"{layer}.fc2", (D, F))]
        shapes |= {f"{name}.{part}": (D,) for name in norms for part in ("weight", "bias")}
        for name, shape in products:
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def bind(c: FairseqConfig, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input become one matrix."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-5)

    def weight(*names):
        data, bias = ([tensors[f"{n}.{kind}"] for n in names] for kind in ("weight", "bias"))
        return Weight(data[0] if len(data) == 1 else tuple(data), np.concatenate(bias), layout="oi")

    def stack(side, wte, kind, window=None):
        layers, h = c.stacks[side]
        names = [f"{side}.layers.{i}.{name}_layer_norm" for i in range(layers) for name in SUBLAYERS[side]]
        own = [norm(name) for name in names]
        last = norm(f"{side}.layer_norm") if c.has_final_norm(side) else own[-1]
        after = iter([*own[1:], last] if c.is_pre_norm(side) else own)  # in the order of the sublayers
        blocks = []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            ln, attention, cross = [next(after) for _ in SUBLAYERS[side]], f"{layer}.self_attn", f"{layer}.encoder_attn"
            parts = (
                weight(*(f"{attention}.{p}_proj" for p in "qkv")), replace(h, window=window),
                weight(f"{attention}.out_proj"), ln[0], weight(f"{layer}.fc1"), weight(f"{layer}.fc2"), ln[-1],
            )  # fmt: skip
            seen = (weight(f"{cross}.q_proj"), h, weight(f"{cross}.out_proj"), ln[1]) if side == "decoder" else ()
            blocks.append(kind(*parts, *seen))
        ends = c.has_final_norm(side) or not c.is_pre_norm(side)
        ln_embedding = norm(f"{side}.layernorm_embedding") if c.layernorm_embedding else None
        return Stack(wte, positions(side, wte.dtype), ln_embedding, own[0], c.is_pre_norm(side), ends, tuple(blocks))

    def positions(side, dtype):
        if c.learns_positions(side):
            return tensors[f"{side}.embed_positions.weight"][2:]
        return None if c.no_token_positional_embeddings else c.sinusoids(side).astype(dtype)

    source, target, head = (tensors[name] for name in c.tables)
    layers = (f"decoder.layers.{i}" for i in range(c.decoder_layers))
    return Weights(
        stack("encoder", source, EncoderBlock), stack("decoder", target, DecoderBlock, c.attention_window),
        1.0 if c.no_scale_embedding else math.sqrt(c.width), c.activation_function, Weight(head, layout="oi"),
        weight(*(f"{layer}.encoder_attn.{p}_proj" for layer in layers for p in "kv")),
    )  # fmt: skip
