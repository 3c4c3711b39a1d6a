"""GPT-BigCode's files (StarCoder, SantaCoder): GPT-2's names, matrices (out, in), and c_attn in two orders."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import gpt2_tensors
from .gpt2 import Weights
from .gpt2_tensors import IGNORED, LAYER, OPTIONAL, PREFIX, tied

__all__ = ["IGNORED", "LAYER", "OPTIONAL", "PREFIX", "bind", "side_by_side", "tensor_shapes", "tied"]


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `transformer.`."""
    shapes = gpt2_tensors.tensor_shapes(c)
    return {name: shape[::-1] if re.match(LAYER, name) else shape for name, shape in shapes.items()}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads, c_attn in the order in which heads are split."""
    if c.is_interleaved:
        tensors = {n: side_by_side(c, t) if ".attn.c_attn." in n else t for n, t in tensors.items()}
    return gpt2_tensors.bind(c, tensors, layout="oi")


def side_by_side(c, tensor):
    """Outputs q_0, k_0, v_0, q_1, k_1, v_1, ... of the heads -> all queries, then all keys, then all values: a copy."""
    h = c.heads(c.n_head)
    by_head = tensor.reshape(h.H, 2 * h.K + h.U, *tensor.shape[1:])
    parts = by_head[:, : h.K], by_head[:, h.K : 2 * h.K], by_head[:, 2 * h.K :]
    return np.concatenate([part.reshape(-1, *tensor.shape[1:]) for part in parts])
