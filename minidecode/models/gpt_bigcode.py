"""GPT-BigCode (StarCoder, SantaCoder): GPT-2's forward pass, whose query heads may share keys and values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CheckpointError
from . import gpt2
from .gpt2 import LAYER, OPTIONAL, PREFIX, GPT2Config, Weights, forward, ignored_tensors, lm_head, tied_tensors

__all__ = [
    "LAYER",
    "OPTIONAL",
    "PREFIX",
    "bind",
    "forward",
    "ignored_tensors",
    "lm_head",
    "tensor_shapes",
    "tied_tensors",
]

# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GPTBigCodeConfig(GPT2Config):
    """The fields of a StarCoder or SantaCoder `config.json`: GPT-2's, and whether query heads share keys and values.

    Without multi_query, c_attn has the query, key and value of head 0, then those of head 1, and so on. Fewer key/value
    heads, which num_key_value_heads says, are ours (see `convert`): then it has all queries, keys and values in turn.
    """

    FLAGS = (*GPT2Config.FLAGS, "multi_query")

    activation_function: str = "gelu_pytorch_tanh"
    multi_query: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.multi_query and self.num_key_value_heads is None:
            object.__setattr__(self, "num_key_value_heads", 1)
        if self.multi_query and self.num_key_value_heads != 1:
            raise CheckpointError(
                f"config.json: multi_query has one key/value head, and num_key_value_heads is "
                f"{self.num_key_value_heads}: set multi_query to false, or leave num_key_value_heads out"
            )

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Without GPT-2's division of scores by the layer's number, which these models do not have."""
        return super().from_json({k: v for k, v in fields.items() if k != "scale_attn_by_inverse_layer_idx"})

    @property
    def is_interleaved(self) -> bool:
        """Whether c_attn has the query, key and value of one head beside each other."""
        return self.num_key_value_heads in (None, self.n_head) and not self.multi_query


# ---- tensors ---------------------------------------------------------------------------------------------------------
# GPT-BigCode's files (StarCoder, SantaCoder): GPT-2's names, matrices (out, in), and c_attn in two orders.


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `transformer.`."""
    shapes = gpt2.tensor_shapes(c)
    return {name: shape[::-1] if re.match(LAYER, name) else shape for name, shape in shapes.items()}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads, c_attn in the order in which heads are split."""
    if c.is_interleaved:
        tensors = {n: deinterleave_qkv(c, t) if ".attn.c_attn." in n else t for n, t in tensors.items()}
    return gpt2.bind(c, tensors, layout="oi")


def deinterleave_qkv(c, tensor):
    """Outputs q_0, k_0, v_0, q_1, k_1, v_1, ... of the heads -> all queries, then all keys, then all values: a copy."""
    h = c.heads(c.n_head)
    by_head = tensor.reshape(h.H, 2 * h.K + h.U, *tensor.shape[1:])
    parts = by_head[:, : h.K], by_head[:, h.K : 2 * h.K], by_head[:, 2 * h.K :]
    return np.concatenate([part.reshape(-1, *tensor.shape[1:]) for part in parts])
