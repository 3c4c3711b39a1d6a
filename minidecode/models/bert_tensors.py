"""BERT's files: which tensors they hold, and where each goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..ops import Norm, Weight
from .bart import EncoderBlock
from .bert import Weights

PREFIX = "bert."
IGNORED = r"embeddings\.position_ids|cls\..*"  # a buffer of old files; the heads that BERT was trained with
LAYER = r"encoder\.layer\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
OLD = {"weight": "gamma", "bias": "beta"}  # how old files call the parts of a norm


def settled(c, stored: dict[str, Any], equal):
    """The config as the file answers it: whether there are a pooler and a classifier.

    A classifier without a pooler is one of tokens. Some classifiers of tokens bring a pooler that they do not use:
    config.json's `architectures` says so.
    """
    names = {name.removeprefix(PREFIX) for name in stored}
    pooler, classifier = "pooler.dense.weight" in names, "classifier.weight" in names
    return replace(
        c, has_pooler=pooler, has_classifier=classifier, labels_tokens=c.labels_tokens or (classifier and not pooler)
    )


def tied(c) -> dict[str, str]:
    """Tensors that a file may store in place of another, which have other names in old files."""
    return old_names(tensor_shapes(c))


def old_names(names: Iterable[str]) -> dict[str, str]:
    """Old name -> name, of the parts of norms."""
    parts = ((name, *name.rpartition(".")[::2]) for name in names if "LayerNorm." in name)
    return {f"{stem}.{OLD[part]}": name for name, stem, part in parts}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `bert.`."""
    D, F, h = c.hidden_size, c.intermediate_size, c.heads(c.num_attention_heads)
    tables = {"word": c.vocab_size, "position": c.max_position_embeddings, "token_type": c.type_vocab_size}
    shapes: dict[str, tuple[int, ...]] = {f"embeddings.{n}_embeddings.weight": (rows, D) for n, rows in tables.items()}
    norms, products = ["embeddings.LayerNorm"], []
    for i in range(c.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        widths = {"query": h.H * h.K, "key": h.G * h.K, "value": h.G * h.U}
        products += [(f"{layer}.attention.self.{name}", width, D) for name, width in widths.items()]
        products += [(f"{layer}.attention.output.dense", D, h.H * h.U), (f"{layer}.intermediate.dense", F, D),
                     (f"{layer}.output.dense", D, F)]  # fmt: skip
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    products += [("pooler.dense", D, D)] * c.has_pooler + [("classifier", len(c.labels), D)] * c.has_classifier
    for name in norms:
        shapes |= {f"{name}.weight": (D,), f"{name}.bias": (D,)}
    for name, n_out, n_in in products:
        shapes |= {f"{name}.weight": (n_out, n_in), f"{name}.bias": (n_out,)}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; projections that share an input are one weight."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], c.layer_norm_eps)

    def weight(*names):
        data, bias = ([tensors[f"{n}.{kind}"] for n in names] for kind in ("weight", "bias"))
        if len(names) == 1:
            return Weight(data[0], bias[0], layout="oi")
        return Weight(tuple(data), np.concatenate(bias), layout="oi")

    heads = c.heads(c.num_attention_heads)
    blocks = []
    for i in range(c.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        attention = f"{layer}.attention"
        blocks.append(
            EncoderBlock(
                weight(*(f"{attention}.self.{name}" for name in ("query", "key", "value"))), heads,
                weight(f"{attention}.output.dense"), norm(f"{attention}.output.LayerNorm"),
                weight(f"{layer}.intermediate.dense"), weight(f"{layer}.output.dense"),
                norm(f"{layer}.output.LayerNorm"),
            )
        )  # fmt: skip
    word, position, kind = (tensors[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type"))
    place_XD = (kind[:, None] + position).reshape(-1, c.hidden_size)
    return Weights(
        word, place_XD, norm("embeddings.LayerNorm"), tuple(blocks), c.activation_function,
        weight("pooler.dense") if c.has_pooler else None, weight("classifier") if c.has_classifier else None,
    )  # fmt: skip
