"""Llama and its like (SmolLM2, Qwen2, Mistral): the forward pass, the config and the tensors."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, Weight
from .config import Config, ModelWeights, check_epsilon
from .products import gated_product, product, residual_norm


@dataclass(frozen=True)
class Block:
    norm_1: Norm
    qkv: Weight  # without its bias, which is added in front of the rotation
    qkv_bias_X: Any
    heads: Heads
    out: Weight
    norm_2: Norm
    up: Weight  # of the gate and of what it lets through, in pairs of outputs
    down: Weight
    next_norm: Norm  # the norm that reads this block's result: the next block's norm_1, or the final one


@dataclass(frozen=True)
class Weights(ModelWeights):
    wte_VD: Any
    turns_NK: Any  # by position, the cosines and the sines by which queries and keys are turned
    blocks: tuple[Block, ...]
    activation: str
    lm_head: Weight


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Token ids and positions, one row each -> h_RD, which `lm_head` makes into logits; of the rows in pick_R alone.

    GPT-2's forward pass with RMS norms, gated feed-forward layers, and positions that turn queries and keys in place of
    positions that are added to tokens. Caches get keys that are turned already.
    """
    x_RD, h_RD = ops.embed_norm(ids_R, pos_R, w.wte_VD, None, 1.0, w.blocks[0].norm_1)
    for block, cache in zip(w.blocks, caches, strict=True):
        qkv_RX = product(ops, h_RD, block.qkv)
        qkv_RX = ops.rotate_heads(qkv_RX, block.qkv_bias_X, block.heads, pos_R, w.turns_NK)
        q_RHK = cache.append(ops, qkv_RX, h_RD)
        a_RX = cache.attend(ops, q_RHK)
        if pick_R is not None and block is w.blocks[-1]:
            x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        x_RD, h_RD = residual_norm(ops, x_RD, a_RX, block.out, block.norm_2)
        f_RF = gated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = residual_norm(ops, x_RD, f_RF, block.down, block.next_norm)
    return h_RD


def lm_head(w: Weights, h_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(h_RD, w.lm_head)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(Config):
    """The fields of a `config.json` of Llama, Qwen2 or Mistral that change what is computed, transformers' defaults.

    model_type decides where biases are: Qwen2 has them at queries, keys and values alone, Mistral has none.
    """

    WIDTH, CONTEXT, FEED_FORWARD = "hidden_size", "max_position_embeddings", "intermediate_size"
    LAYERS = ("num_hidden_layers",)
    SIZES = ("vocab_size", "max_position_embeddings", "hidden_size", "intermediate_size", "num_hidden_layers",
             "num_attention_heads")  # fmt: skip
    ALIASES: ClassVar[dict[str, str]] = {"hidden_act": "activation_function"}
    FLAGS = ("tie_word_embeddings", "qkv_bias", "out_bias", "mlp_bias")
    KINDS: ClassVar[tuple[str, ...]] = ("default", "linear", "llama3")  # of rotation
    MOST_NUMBERS: ClassVar[int] = 2**28  # in the table of rotations: 1 GB, or 2 million positions of 128
    DEFAULTS: ClassVar[dict[str, dict[str, int]]] = {  # where they are not Llama's
        "mistral": {"intermediate_size": 14336, "max_position_embeddings": 2**17, "num_key_value_heads": 8,
                    "sliding_window": 4096},
        "qwen2": {"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 2**15},
    }  # fmt: skip

    vocab_size: int = 32000
    max_position_embeddings: int = 2048
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    activation_function: str = "silu"
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    rope_theta: float = 10000.0
    rope: dict[str, Any] = dataclasses.field(default_factory=dict)  # the kind of rotation, and its numbers

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Reads the names of transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters)."""
        kind = fields.get("model_type")
        fields = cls.DEFAULTS.get(str(kind), {}) | fields
        given = dict(fields)
        given |= {"qkv_bias": kind == "qwen2" or fields.get("attention_bias", False), "out_bias": False}
        if kind == "llama":
            given["out_bias"] = fields.get("attention_bias", False)
        if fields.get("head_dim") is not None:
            given |= {"key_width": fields["head_dim"], "value_width": fields["head_dim"]}
        if fields.get("attention_window") is None:
            given["attention_window"] = cls._window(kind, fields)
        rope = fields.get("rope_parameters") or fields.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise CheckpointError(f"config.json: rope_scaling must be an object, not {shown(rope)}")
        given["rope"] = rope
        if rope.get("rope_theta") is not None:
            given["rope_theta"] = rope["rope_theta"]
        return super().from_json({k: v for k, v in given.items() if v is not None})

    @staticmethod
    def _window(kind: Any, fields: dict[str, Any]) -> int | None:
        """How many positions a row sees: Mistral's sliding_window, which is null where it sees all."""
        if kind == "mistral":
            return fields.get("sliding_window")
        if kind == "qwen2" and fields.get("use_sliding_window"):
            raise CheckpointError("config.json: use_sliding_window, a window in some layers alone, is not supported")
        return None

    def __post_init__(self):
        self.check()
        self.check_heads("hidden_size", "num_attention_heads")
        check_epsilon(self.rms_norm_eps, "rms_norm_eps")
        K = self.heads(self.num_attention_heads).K
        if K % 2:
            raise CheckpointError(f"config.json: head_dim {K} is odd, and its halves are turned together")
        self.check_positions("max_position_embeddings", K)
        kind = self.rope_kind
        if kind not in self.KINDS:
            raise CheckpointError(f"config.json: rope_type {shown(kind)} is not supported: {', '.join(self.KINDS)} are")
        if self.rope.get("partial_rotary_factor", 1) != 1:
            raise CheckpointError("config.json: partial_rotary_factor is not supported: all of a head is turned")
        self._check_number("rope_theta", self.rope_theta, 1)
        names = {"linear": ("factor",), "llama3": ("factor", "low_freq_factor", "high_freq_factor",
                                                   "original_max_position_embeddings")}  # fmt: skip
        for name in names.get(kind, ()):
            self._check_number(name, self.rope.get(name), 0)
        if kind == "llama3" and self.rope["low_freq_factor"] >= self.rope["high_freq_factor"]:
            raise CheckpointError("config.json: low_freq_factor must be below high_freq_factor")

    @staticmethod
    def _check_number(name: str, value: Any, above: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value:
            raise CheckpointError(f"config.json: {name} must be a number above {above}, not {shown(value)}")
        if value >= 2**63:
            raise CheckpointError(f"config.json: {name} must be below 2**63, not {shown(value)}")

    @property
    def rope_kind(self) -> Any:
        """The kind of rotation; old files call it `type`."""
        return self.rope.get("rope_type", self.rope.get("type", "default"))

    @property
    def is_gated(self) -> bool:
        return True

    def frequencies(self, K: int) -> np.ndarray:
        """f_i, by which the i-th pair of a head turns from one position to the next: theta^(-2i/K), scaled.

        linear: f / factor. llama3: so where a wave is longer than original/low, not at all where it is shorter than
        original/high, and between the two a share of both.
        """
        f_X = self.rope_theta ** (-2 * np.arange(K // 2) / K)
        if self.rope_kind == "linear":
            return f_X / self.rope["factor"]
        if self.rope_kind == "llama3":
            low, high = self.rope["low_freq_factor"], self.rope["high_freq_factor"]
            turns_X = self.rope["original_max_position_embeddings"] * f_X / (2 * math.pi)
            share_X = np.clip((turns_X - low) / (high - low), 0, 1)
            return (1 - share_X) * f_X / self.rope["factor"] + share_X * f_X
        return f_X

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}


# ---- tensors ---------------------------------------------------------------------------------------------------------
# Llama's files: which tensors they hold, and where each goes.

PREFIX = "model."
LAYER = r"layers\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
AT_ONCE = 2**12  # positions whose angles are computed together


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: angles in old files."""
    return r".*rotary_emb\.inv_freq"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store although they are copies: copy -> original."""
    return {"lm_head.weight": "embed_tokens.weight"} if c.tie_word_embeddings else {}


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `model.`."""
    D, F, V, h = c.hidden_size, c.intermediate_size, c.vocab_size, c.heads(c.num_attention_heads)
    shapes = {"embed_tokens.weight": (V, D), "norm.weight": (D,)}
    if not c.tie_word_embeddings:
        shapes["lm_head.weight"] = (V, D)
    keys, values = ("k", h.G * h.K), ("v", h.G * h.U)
    products = [(f"self_attn.{p}_proj", n, D, c.qkv_bias) for p, n in (("q", h.H * h.K), keys, values)]
    products += [("self_attn.o_proj", D, h.H * h.U, c.out_bias), ("mlp.gate_proj", F, D, c.mlp_bias),
                 ("mlp.up_proj", F, D, c.mlp_bias), ("mlp.down_proj", D, F, c.mlp_bias)]  # fmt: skip
    for i in range(c.num_hidden_layers):
        for name, n_out, n_in, has_bias in products:
            shapes[f"layers.{i}.{name}.weight"] = (n_out, n_in)
            shapes |= {f"layers.{i}.{name}.bias": (n_out,)} if has_bias else {}
        shapes |= {f"layers.{i}.{name}.weight": (D,) for name in ("input_layernorm", "post_attention_layernorm")}
    return shapes


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; gate and up become pairs of one matrix's outputs."""

    def bind_norm(name):
        return Norm(tensors[f"{name}.weight"], None, c.rms_norm_eps)

    def bind_joined_weight(*names, join=np.concatenate):
        data = [tensors[f"{name}.weight"] for name in names]
        biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
        data, bias = (parts if len(parts) < 2 else [join(parts)] for parts in (data, biases))
        return Weight(data[0], bias[0] if bias else None, layout="oi")

    def interleave_outputs(parts):
        return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])

    heads = c.heads(c.num_attention_heads, window=c.attention_window)
    blocks = []
    for i in range(c.num_hidden_layers):
        attention, mlp = f"layers.{i}.self_attn", f"layers.{i}.mlp"
        qkv = bind_joined_weight(*(f"{attention}.{p}_proj" for p in "qkv"))
        next_norm = f"layers.{i + 1}.input_layernorm" if i + 1 < c.num_hidden_layers else "norm"
        blocks.append(
            Block(
                bind_norm(f"layers.{i}.input_layernorm"), Weight(qkv.data, layout="oi"), qkv.bias, heads,
                bind_joined_weight(f"{attention}.o_proj"), bind_norm(f"layers.{i}.post_attention_layernorm"),
                bind_joined_weight(f"{mlp}.gate_proj", f"{mlp}.up_proj", join=interleave_outputs),
                bind_joined_weight(f"{mlp}.down_proj"), bind_norm(next_norm),
            )
        )  # fmt: skip
    wte_VD = tensors["embed_tokens.weight"]
    lm_head = wte_VD if c.tie_word_embeddings else tensors["lm_head.weight"]
    return Weights(
        wte_VD, rotation_table(c, heads.K, wte_VD.dtype), tuple(blocks), c.activation_function,
        Weight(lm_head, layout="oi"),
    )  # fmt: skip


def rotation_table(c, K: int, dtype) -> np.ndarray:
    """turns_NK: the cosines of p f_i, then the sines, for each position p; computed in float64, some at a time."""
    turns_NK, f_X = np.empty((c.context, K), dtype), c.frequencies(K)
    for first in range(0, c.context, AT_ONCE):
        angle_NX = np.arange(first, min(first + AT_ONCE, c.context))[:, None] * f_X
        here_NK = turns_NK[first : first + AT_ONCE]
        here_NK[:, : K // 2], here_NK[:, K // 2 :] = np.cos(angle_NX), np.sin(angle_NX)
    return turns_NK
