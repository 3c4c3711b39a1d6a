"""A family that the package has not: GPT-2 whose attention and feed-forward layer stand side by side in each layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from minidecode.models.config import Config, ModelWeights, check_epsilon
from minidecode.models.products import activated_product, product, residual_norm
from minidecode.ops import Heads, Norm, Weight


@dataclass(frozen=True)
class Block:
    norm: Norm
    qkv: Weight
    heads: Heads
    out: Weight
    up: Weight
    down: Weight
    next_norm: Norm


@dataclass(frozen=True)
class Weights(ModelWeights):
    wte_VD: Any
    wpe_ND: Any
    blocks: tuple[Block, ...]
    lm_head: Weight


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """x + attention(h) + feed-forward(h), where h = LN(x)."""
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.wte_VD, w.wpe_ND, 1.0, w.blocks[0].norm)
    for block, cache in zip(w.blocks, caches, strict=True):
        a_RX = cache.attend(ops, cache.append(ops, product(ops, h_RD, block.qkv), h_RD))
        f_RF = activated_product(ops, h_RD, block.up, "relu")
        x_RD, _ = residual_norm(ops, x_RD, f_RF, block.down, block.next_norm)
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.next_norm)
    return h_RD if pick_R is None else ops.gather_rows(h_RD, pick_R)


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(Config):
    """Its fields, all of which a file has to give."""

    WIDTH, CONTEXT, LAYERS = "hidden", "positions", ("depth",)
    SIZES = ("vocab_size", "positions", "hidden", "depth", "head_count", "inner")
    FLAGS = ()
    ALIASES: ClassVar[dict[str, str]] = {}

    vocab_size: int
    positions: int
    hidden: int
    depth: int
    head_count: int
    inner: int
    activation_function: str = "relu"
    epsilon: float = 1e-5

    def __post_init__(self):
        self.check()
        self.check_heads("hidden", "head_count")
        check_epsilon(self.epsilon, "epsilon")

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        return {"decoder": (self.depth, self.heads(self.head_count))}


# ---- tensors ---------------------------------------------------------------------------------------------------------

PREFIX, LAYER, OPTIONAL = "", r"layer\.\d+\.", ()


def ignored_tensors(c) -> str:
    return "(?!)"


def tied_tensors(c) -> dict[str, str]:
    return {"head": "words"}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    D, F = c.width, c.inner
    shapes = {"words": (c.vocab_size, D), "places": (c.positions, D), "norm.gain": (D,), "norm.bias": (D,)}
    for i in range(c.layers):
        for name, n_in, n_out in (("qkv", D, 3 * D), ("out", D, D), ("up", D, F), ("down", F, D)):
            shapes |= {f"layer.{i}.{name}": (n_in, n_out), f"layer.{i}.{name}.bias": (n_out,)}
        shapes |= {f"layer.{i}.norm.gain": (D,), f"layer.{i}.norm.bias": (D,)}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    def norm(name):
        return Norm(tensors[f"{name}.gain"], tensors[f"{name}.bias"], c.epsilon)

    def weight(i, name):
        return Weight(tensors[f"layer.{i}.{name}"], tensors[f"layer.{i}.{name}.bias"], layout="io")

    norms = [norm(f"layer.{i}.norm") for i in range(c.layers)] + [norm("norm")]
    blocks = tuple(
        Block(
            norms[i], weight(i, "qkv"), c.heads(c.head_count), weight(i, "out"), weight(i, "up"), weight(i, "down"),
            norms[i + 1],
        )
        for i in range(c.layers)
    )  # fmt: skip
    return Weights(tensors["words"], tensors["places"], blocks, Weight(tensors["words"], layout="oi"))
