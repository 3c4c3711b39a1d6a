"""ProphetNet's files: which tensors they hold, and where each goes. XLM-ProphetNet has the same names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..ops import Norm, Weight
from .bart import EncoderBlock, Stack
from .prophetnet import DecoderBlock, Weights

PREFIX = "prophetnet."
LAYER = r"(encoder|decoder)\.layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
ATTENTIONS = {"encoder": ("self_attn",), "decoder": ("self_attn", "cross_attn")}
RELATIVE = "self_attn.relative_pos_embeddings"


def ignored(c) -> str:
    """The table that both sides have copies of, where they have tables of their own."""
    return "(?!)" if c.tie_word_embeddings else r"word_embeddings\.weight"


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {copy: original for copy, original in zip(c.TABLES, c.tables, strict=True) if copy != original}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `prophetnet.`."""
    D, P = c.hidden_size, c.max_position_embeddings
    shapes: dict[str, tuple[int, ...]] = {name: (c.vocab_size, D) for name in c.tables}
    shapes["decoder.ngram_embeddings.weight"] = (c.ngram, D)
    for side, (layers, h) in c.stacks.items():
        shapes[f"{side}.position_embeddings.weight"] = (P, D)
        F, norms, products = getattr(c, f"{side}_ffn_dim"), [f"{side}.embeddings_layer_norm"], []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            norms += [f"{layer}.{name}_layer_norm" for name in (*ATTENTIONS[side], "feed_forward")]
            widths = {"query": (h.H * h.K, D), "key": (h.G * h.K, D), "value": (h.G * h.U, D), "out": (D, h.H * h.U)}
            products += [(f"{layer}.{a}.{p}_proj", s) for a in ATTENTIONS[side] for p, s in widths.items()]
            products += [(f"{layer}.feed_forward.intermediate", (F, D)), (f"{layer}.feed_forward.output", (D, F))]
            products += [(f"{layer}.{RELATIVE}", (c.num_buckets * h.H, D))] * (side == "decoder")
        shapes |= {f"{name}.{part}": (D,) for name in norms for part in ("weight", "bias")}
        for name, shape in products:
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input are one weight."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-5)

    def weight(*names):
        data, bias = ([tensors[f"{n}.{kind}"] for n in names] for kind in ("weight", "bias"))
        return Weight(data[0] if len(data) == 1 else tuple(data), np.concatenate(bias), layout="oi")

    def relative(name, H):
        """Outputs by bucket and head, as files have them -> by head and bucket."""
        parts = (tensors[f"{name}.{kind}"] for kind in ("weight", "bias"))
        data, bias = (part.reshape(c.num_buckets, H, -1).swapaxes(0, 1).reshape(part.shape) for part in parts)
        return Weight(data, bias, layout="oi")

    def stack(side, wte, kind):
        layers, h = c.stacks[side]
        own = replace(h, window=c.attention_window) if side == "decoder" else h
        blocks = []
        for layer in (f"{side}.layers.{i}" for i in range(layers)):
            attention, cross = f"{layer}.self_attn", f"{layer}.cross_attn"
            parts = (
                weight(*(f"{attention}.{p}_proj" for p in ("query", "key", "value"))), own,
                weight(f"{attention}.out_proj"), norm(f"{attention}_layer_norm"),
                weight(f"{layer}.feed_forward.intermediate"), weight(f"{layer}.feed_forward.output"),
                norm(f"{layer}.feed_forward_layer_norm"),
            )  # fmt: skip
            seen = () if side == "encoder" else (
                weight(f"{cross}.query_proj"), h, weight(f"{cross}.out_proj"), norm(f"{cross}_layer_norm"),
                relative(f"{layer}.{RELATIVE}", h.H),
            )  # fmt: skip
            blocks.append(kind(*parts, *seen))
        wpe = tensors[f"{side}.position_embeddings.weight"][c.FIRST :]
        return Stack(wte, wpe, norm(f"{side}.embeddings_layer_norm"), tuple(blocks))

    source, target, head = (tensors[name] for name in c.tables)
    decoder = stack("decoder", target, DecoderBlock)
    # The stream that predicts the next token has the last row of this table, and those further ahead the rows before.
    query_ND = decoder.wpe_ND[1:] + tensors["decoder.ngram_embeddings.weight"][-1]
    layers = (f"decoder.layers.{i}" for i in range(c.num_decoder_layers))
    return Weights(
        stack("encoder", source, EncoderBlock), decoder, 1.0, c.activation_function, Weight(head, layout="oi"),
        weight(*(f"{layer}.cross_attn.{p}_proj" for layer in layers for p in ("key", "value"))),
        query_ND, c.bucket_of_distance(),
    )  # fmt: skip
