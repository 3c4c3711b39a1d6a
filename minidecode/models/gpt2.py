"""GPT-2: the forward pass, the config and the tensors.

`minidecode/page.py` has it in plain NumPy, with its cache and its searches: read that page first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import CheckpointError
from ..ops import Heads, Norm, Weight
from .config import Config, ModelWeights, check_epsilon
from .products import activated_product, product, residual_norm


@dataclass(frozen=True)
class Block:
    ln_1: Norm
    qkv: Weight
    heads: Heads
    out: Weight
    ln_2: Norm
    up: Weight
    down: Weight
    next_ln: Norm  # the norm that reads this block's result: the next block's ln_1, or the final one


@dataclass(frozen=True)
class Weights(ModelWeights):
    wte_VD: Any
    wpe_ND: Any
    blocks: tuple[Block, ...]
    activation: str
    lm_head: Weight


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    A prefill (all tokens of all prompts, no padding), a decode step (one row per beam) and decoding without a cache
    are this same call: what a row may look at is its cache's affair. Rows look at each other in attention alone: after
    the last one, those that are not asked for are left out. (A prefill asks for each prompt's last row: it is spared
    three quarters of the last block.)
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, w.blocks[0].ln_1)
    return run_layers(w, x_RD, h_RD, caches, ops, pick_R)


def run_layers(w: Weights, x_RD, h_RD, caches, ops, pick_R):
    """All layers: x_RD is the residual stream, h_RD what the first layer's norm makes of it."""
    for block, cache in zip(w.blocks, caches, strict=True):
        qkv_RX = product(ops, h_RD, block.qkv)
        q_RHK = cache.append(ops, qkv_RX, h_RD)  # bias, split to heads, keys and values kept
        a_RX = cache.attend(ops, q_RHK)
        if pick_R is not None and block is w.blocks[-1]:
            x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_2)
        f_RF = activated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, block.next_ln)
    return h_RD


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class GPT2Config(Config):
    """The fields of a GPT-2 `config.json` that change what is computed, with transformers' defaults."""

    WIDTH, CONTEXT, FEED_FORWARD = "n_embd", "n_positions", "n_inner"
    LAYERS: ClassVar[tuple[str, ...]] = ("n_layer",)
    SIZES: ClassVar[tuple[str, ...]] = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner")
    ALIASES: ClassVar[dict[str, str]] = {
        "hidden_size": "n_embd", "max_position_embeddings": "n_positions", "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    }  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = (
        "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "tie_word_embeddings", "add_cross_attention"
    )  # fmt: skip

    vocab_size: int = 50257
    n_positions: int = 1024
    n_embd: int = 768
    n_layer: int = 12
    n_head: int = 12
    n_inner: int | None = None  # None: 4 * n_embd
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True
    add_cross_attention: bool = False

    def __post_init__(self):
        if self.n_inner is None and isinstance(self.n_embd, int):
            object.__setattr__(self, "n_inner", 4 * self.n_embd)
        self.check()
        self.check_heads("n_embd", "n_head")
        check_epsilon(self.layer_norm_epsilon)
        if self.add_cross_attention:
            raise CheckpointError(
                "config.json: add_cross_attention is not supported in decoder-only models: use a model without it"
            )

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.n_layer, self.heads(self.n_head, self.scale_attn_weights))}


# ---- tensors ---------------------------------------------------------------------------------------------------------
# GPT-2's files: which tensors they hold, and where each goes.

PREFIX = "transformer."
LAYER = r"h\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: causal masks of old files."""
    return r"h\.\d+\.attn\.(bias|masked_bias)"


def tied_tensors(c) -> dict[str, str]:
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

    def bind_norm(name):
        return Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"], c.layer_norm_epsilon)

    def bind_weight(name):
        return Weight(tensors[f"{name}.weight"], tensors[f"{name}.bias"], layout=layout)

    heads = c.heads(c.n_head, c.scale_attn_weights, c.attention_window)
    blocks = []
    for i in range(c.n_layer):
        scale = heads.scale / (i + 1) if c.scale_attn_by_inverse_layer_idx else heads.scale
        next_ln = f"h.{i + 1}.ln_1" if i + 1 < c.n_layer else "ln_f"
        blocks.append(
            Block(
                bind_norm(f"h.{i}.ln_1"), bind_weight(f"h.{i}.attn.c_attn"), replace(heads, scale=scale),
                bind_weight(f"h.{i}.attn.c_proj"), bind_norm(f"h.{i}.ln_2"), bind_weight(f"h.{i}.mlp.c_fc"),
                bind_weight(f"h.{i}.mlp.c_proj"), bind_norm(next_ln),
            )
        )  # fmt: skip
    lm_head = tensors["wte.weight" if c.tie_word_embeddings else "lm_head.weight"]
    return Weights(
        tensors["wte.weight"], tensors["wpe.weight"], tuple(blocks), c.activation_function, Weight(lm_head, layout="oi")
    )
