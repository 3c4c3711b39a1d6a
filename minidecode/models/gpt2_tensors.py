"""GPT-2's files: which tensors they hold, and where each goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..ops import Norm, Weight
from .gpt2 import Block, Weights

PREFIX = "transformer."
IGNORED = r"h\.\d+\.attn\.(bias|masked_bias)"  # causal masks that old files carry
LAYER = r"h\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()


def tied(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {"lm_head.weight": "wte.weight"} if c.tie_word_embeddings else {}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `transformer.`."""
    D, F, V, h = c.n_embd, c.n_inner, c.vocab_size, c.heads(c.n_head)
    qkv = h.H * h.K + h.G * (h.K + h.U)
    shapes = {"wte.weight": (V, D), "wpe.weight": (c.n_positions, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (V, D)
    for i in range(c.n_layer):
        for name, n_in, n_out in [("attn.c_attn", D, qkv), ("attn.c_proj", h.H * h.U, D),
                                  ("mlp.c_fc", D, F), ("mlp.c_proj", F, D)]:  # fmt: skip
            shapes |= {f"h.{i}.{name}.weight": (n_in, n_out), f"h.{i}.{name}.bias": (n_out,)}
        for name in ("ln_1", "ln_2"):
            shapes |= {f"h.{i}.{name}.weight": (D,), f"h.{i}.{name}.bias": (D,)}
    return shapes


def bind(c, tensors: dict[str, Any], layout: str = "io") -> Weights:
    """The tensors under the names that the forward pass reads; `layout` is that of the layers' matrices."""

    def norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], c.layer_norm_epsilon)

    def weight(name):
        return Weight(tensors[f"{name}.weight"], tensors[f"{name}.bias"], layout=layout)

    heads = c.heads(c.n_head, c.scale_attn_weights, c.attention_window)
    blocks = []
    for i in range(c.n_layer):
        scale = heads.scale / (i + 1) if c.scale_attn_by_inverse_layer_idx else heads.scale
        next_ln = f"h.{i + 1}.ln_1" if i + 1 < c.n_layer else "ln_f"
        blocks.append(
            Block(
                norm(f"h.{i}.ln_1"), weight(f"h.{i}.attn.c_attn"), replace(heads, scale=scale),
                weight(f"h.{i}.attn.c_proj"), norm(f"h.{i}.ln_2"), weight(f"h.{i}.mlp.c_fc"),
                weight(f"h.{i}.mlp.c_proj"), norm(next_ln),
            )
        )  # fmt: skip
    lm_head = tensors["wte.weight" if c.tie_word_embeddings else "lm_head.weight"]
    return Weights(
        tensors["wte.weight"], tensors["wpe.weight"], tuple(blocks), c.activation_function, Weight(lm_head, layout="oi")
    )
