"""UniLM, a BERT that reads a source both ways and writes a target: the forward pass, the config and the tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, Weight
from . import bert
from .bart import EncoderBlock, feed_forward
from .bert import LAYER, OPTIONAL, PREFIX, BertConfig  # noqa: F401  (what a family's table has)
from .config import ModelWeights, NamedTensors
from .products import activated_product, product, residual_norm


@dataclass(frozen=True)
class Weights(ModelWeights):
    """`query_ND` has the row of [MASK] behind each token, at the next position; None: a token's own row predicts."""

    wte_VD: Any
    place_XD: Any  # row p: position p with the type of sources; row P + p: with that of targets, for P positions
    ln_embedding: Norm
    blocks: tuple[EncoderBlock, ...]
    activation: str
    transform: Weight
    ln_transform: Norm
    lm_head: Weight


def forward(w: Weights, ids_R, place_R, caches, ops, pick_R=None):
    """Token ids and their places in the table, one row each, no padding -> x_RD, which `lm_head` makes into logits.

    Rows of a source see all of it, those of a target what is before them. What predicts the next token is the token's
    own row, or a row of [MASK] behind it, which no other row sees. pick_R: the tokens behind which it is asked for.
    """
    _, x_RD = ops.embed_norm(ids_R, place_R, w.wte_VD, w.place_XD, 1.0, w.ln_embedding)
    if w.query_ND is not None:
        behind_R = place_R if pick_R is None else place_R[pick_R]
        _, query_RD = ops.embed_norm(behind_R, behind_R, w.query_ND, None, 1.0, w.ln_embedding)
        x_RD = caches[0].join_rows(ops, x_RD, query_RD)
    for block, cache in zip(w.blocks, caches, strict=True):
        is_last = block is w.blocks[-1]
        q_RHK = cache.append(ops, product(ops, x_RD, block.qkv), x_RD)
        if w.query_ND is not None:
            a_RX = cache.attend(ops, q_RHK, queries_alone=is_last)
            x_RD = cache.pick_query_rows(ops, x_RD) if is_last else x_RD
        else:
            a_RX = cache.attend(ops, q_RHK)
            if is_last and pick_R is not None:
                x_RD, a_RX = ops.gather_rows(x_RD, pick_R), ops.gather_rows(a_RX, pick_R)
        _, x_RD = residual_norm(ops, x_RD, a_RX, block.out, block.ln_self)
        x_RD = feed_forward(x_RD, block, w.activation, ops)
    return x_RD


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV: by BERT's head, a layer of its own and the table of tokens."""
    t_RD = activated_product(ops, x_RD, w.transform, w.activation)
    _, h_RD = ops.residual_norm(t_RD, None, None, w.ln_transform)
    return ops.add_bias(ops.linear(h_RD, w.lm_head), w.lm_head.bias)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class UnilmConfig(BertConfig):
    """The fields of a UniLM `config.json`: BERT's, and which types source and target tokens have.

    Norms add 1e-5 to variances, as all of UniLM's code does; the file's layer_norm_eps is not read there either.
    """

    SIZES = BertConfig.SIZES
    FLAGS: ClassVar[tuple[str, ...]] = ("pos_shift", "has_fast_qkv")
    # What later versions of UniLM's code have, and this has not: the largest value that leaves it off, and what it is.
    UNSUPPORTED: ClassVar[dict[str, tuple[int, str]]] = {
        "rel_pos_bins": (0, "relative positions (UniLM 2)"), "max_rel_pos": (0, "relative positions (UniLM 2)"),
        "relax_projection": (1, "a projection for each task"), "new_pos_ids": (0, "positions for each task"),
        "num_qkv": (1, "several sets of queries, keys and values"), "seg_emb": (0, "segments inside attention"),
        "ffn_type": (0, "another feed-forward layer"),
    }  # fmt: skip

    vocab_size: int = 28996
    type_vocab_size: int = 6
    source_type_id: int = 0
    target_type_id: int = 1
    mask_token_id: int = 103  # [MASK] of BERT's vocabularies
    pos_shift: bool = False  # whether a token's own row predicts the next one, as in GPT-2
    has_fast_qkv: bool = False  # as the file has it: one matrix of queries, keys and values, and no bias of keys

    def __post_init__(self):
        super().__post_init__()
        if self.attention_window is not None:
            raise CheckpointError("config.json: attention_window is not supported for unilm: leave it out")
        below = {"source_type_id": self.type_vocab_size, "target_type_id": self.type_vocab_size,
                 "mask_token_id": self.vocab_size}  # fmt: skip
        for name, count in below.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
                rule = f"must be an integer from 0 to {count - 1}"
                raise CheckpointError(f"config.json: {name} {rule}, not {shown(value, 40)}")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Without what it says of norms and of labels."""
        for name, (most, what) in cls.UNSUPPORTED.items():
            value = fields.get(name) or 0
            if not isinstance(value, int) or value > most:
                raise CheckpointError(
                    f"config.json: {name}={shown(value)} asks for {what}, which is not supported: use a model without "
                    "it"
                )
        unread = ("layer_norm_eps", "id2label", "num_labels", "problem_type", "architectures")
        known = {name: value for name, value in fields.items() if name not in unread and value is not None}
        return super().from_json({**known, "layer_norm_eps": 1e-5})

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"decoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}

    def stack_of_tensor(self, name: str) -> str:
        return "decoder"  # whose tensors are called "encoder.", as BERT's are

    def complete_from_weights(self, stored: dict[str, Any], equal: Callable[..., bool]) -> UnilmConfig:
        """The config as the file answers it: how queries, keys and values are stored."""
        return replace(self, has_fast_qkv=any(name.endswith("attention.self.qkv_linear.weight") for name in stored))


# ---- tensors ---------------------------------------------------------------------------------------------------------
# UniLM's files: which tensors they hold, and where each goes. They are BERT's, with the head of its training.

HEAD = "cls.predictions."
PLAIN = ("query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias")


def ignored_tensors(c) -> str:
    """What a file may hold and decoding does not read: buffers, the pooler, the head of next sentences."""
    return r"embeddings\.position_ids|pooler\..*|cls\.seq_relationship\..*|cls2\..*|crit_mask_lm.*"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store in place of another: copies of the table and its bias, norms under old names."""
    copies = {f"{HEAD}decoder.weight": "embeddings.word_embeddings.weight", f"{HEAD}decoder.bias": f"{HEAD}bias"}
    return copies | bert.old_norm_names(tensor_shapes(c))


def tensor_shapes(c) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`, names without the prefix `bert.`."""
    D, h = c.hidden_size, c.heads(c.num_attention_heads)
    shapes = bert.tensor_shapes(replace(c, has_pooler=False, has_classifier=False))
    if c.has_fast_qkv:
        for name in [name for name in shapes if name.endswith(PLAIN)]:
            del shapes[name]
        for i in range(c.num_hidden_layers):
            attention = f"encoder.layer.{i}.attention.self."
            shapes |= {f"{attention}qkv_linear.weight": (h.H * h.K + h.G * (h.K + h.U), D),
                       f"{attention}q_bias": (h.H * h.K,), f"{attention}v_bias": (h.G * h.U,)}  # fmt: skip
    shapes |= {f"{HEAD}transform.dense.weight": (D, D), f"{HEAD}transform.dense.bias": (D,)}
    shapes |= {f"{HEAD}transform.LayerNorm.{part}": (D,) for part in ("weight", "bias")}
    return shapes | {f"{HEAD}bias": (c.vocab_size,)}


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; projections that share an input are one weight."""
    h = c.heads(c.num_attention_heads)
    named = NamedTensors(tensors, c.layer_norm_eps)
    norm, weight = named.norm, named.weight

    def bind_qkv(attention):
        if c.has_fast_qkv:  # a bias of keys would add the same to all scores of a query
            q_bias, v_bias = tensors[f"{attention}.q_bias"], tensors[f"{attention}.v_bias"]
            k_bias = np.zeros(h.G * h.K, q_bias.dtype)
            whole = np.concatenate([q_bias, k_bias, v_bias])
            return Weight(tensors[f"{attention}.qkv_linear.weight"], whole, layout="oi")
        return weight(*(f"{attention}.{name}" for name in ("query", "key", "value")))

    blocks = []
    for i in range(c.num_hidden_layers):
        layer = f"encoder.layer.{i}"
        attention = f"{layer}.attention"
        blocks.append(
            EncoderBlock(
                bind_qkv(f"{attention}.self"), h,
                weight(f"{attention}.output.dense"), norm(f"{attention}.output.LayerNorm"),
                weight(f"{layer}.intermediate.dense"), weight(f"{layer}.output.dense"),
                norm(f"{layer}.output.LayerNorm"),
            )
        )  # fmt: skip
    word_VD, position_ND, type_XD = (
        tensors[f"embeddings.{n}_embeddings.weight"] for n in ("word", "position", "token_type")
    )
    place_XD = np.concatenate([position_ND + type_XD[c.source_type_id], position_ND + type_XD[c.target_type_id]])
    shared: dict[str, Any] = dict(
        wte_VD=word_VD, place_XD=place_XD, target_place=c.max_position_embeddings,
        ln_embedding=norm("embeddings.LayerNorm"), blocks=tuple(blocks), activation=c.activation_function,
        transform=weight(f"{HEAD}transform.dense"), ln_transform=norm(f"{HEAD}transform.LayerNorm"),
        lm_head=Weight(word_VD, tensors[f"{HEAD}bias"], layout="oi"),
    )  # fmt: skip
    if c.pos_shift:
        return Weights(**shared)
    # Behind the token at position p, of a source or of a target, stands [MASK] at p + 1: behind the last one, nothing.
    mask_ND = word_VD[c.mask_token_id] + place_XD[c.max_position_embeddings + 1 :]
    behind_ND = np.concatenate([mask_ND, np.zeros_like(mask_ND[:1])])
    return Weights(**shared, query_ND=np.concatenate([behind_ND, behind_ND]))
