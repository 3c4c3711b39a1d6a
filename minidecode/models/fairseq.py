"""fairseq's Transformer, pre-norm or post-norm: the forward passes of encoder and decoder, the config, the tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..errors import CheckpointError, shown
from ..ops import Norm, Weight
from . import bart
from .bart import LAYER, PREFIX, DecoderBlock, EncoderBlock, tied_tensors
from .config import NamedTensors, TranslatorConfig, make_sinusoid_table, shapes_of_norms_and_products
from .products import activated_product, product, residual_norm

__all__ = ["LAYER", "PREFIX", "Weights", "bind", "encode", "forward", "lm_head", "tensor_shapes", "tied_tensors"]


@dataclass(frozen=True)
class Stack(bart.Stack):
    """The encoder or the decoder, of BART's blocks. Without positions its table of them is None.

    Each norm of a block is of the sum that its sublayer ends in: post-norm's own, or pre-norm's of the next sublayer.
    """

    ln_first: Norm  # of the first sublayer, before it in pre-norm; without effect in post-norm
    is_pre_norm: bool
    ends_in_norm: bool  # or in the sum of the last sublayer


@dataclass(frozen=True)
class Weights(bart.Weights):
    decoder: Stack


def encode(w: Weights, ids_R, pos_R, caches, ops):
    """Source tokens and positions, one row each, no padding -> x_RD, what the decoder's cross attention reads."""
    stack = w.encoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, cache in zip(stack.blocks, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = add_norm(x_RD, cache.attend(ops, q_RHK), block.out, block.ln_self, stack, ops)
        f_RF = activated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = add_norm(x_RD, f_RF, block.down, block.ln_feed, stack, ops)
    return h_RD if stack.ends_in_norm else x_RD


def forward(w: Weights, ids_R, pos_R, caches, ops, pick_R=None):
    """Target tokens and positions, one row each -> x_RD, which `lm_head` makes into logits; of the rows in pick_R.

    Each cache holds a layer's own keys and values, and by `cross` those of the source.
    """
    stack = w.decoder
    x_RD, h_RD = embed(ids_R, pos_R, stack, w.embedding_scale, ops)
    for block, cache in zip(stack.blocks, caches, strict=True):
        q_RHK = cache.append(ops, product(ops, h_RD, block.qkv), h_RD)
        x_RD, h_RD = add_norm(x_RD, cache.attend(ops, q_RHK), block.out, block.ln_self, stack, ops)
        a_RX = cache.cross.attend(ops, product(ops, h_RD, block.cross_q))
        x_RD, h_RD = add_norm(x_RD, a_RX, block.cross_out, block.ln_cross, stack, ops)
        f_RF = activated_product(ops, h_RD, block.up, w.activation)
        x_RD, h_RD = add_norm(x_RD, f_RF, block.down, block.ln_feed, stack, ops)
    x_RD = h_RD if stack.ends_in_norm else x_RD
    return x_RD if pick_R is None else ops.gather_rows(x_RD, pick_R)


def lm_head(w: Weights, x_RD, ops):
    """Rows of `forward` -> logits_RV."""
    return ops.linear(x_RD, w.lm_head)


def embed(ids_R, pos_R, stack, scale, ops):
    """(x, h): (e, LN(e)) in pre-norm, (e, e) in post-norm; e = scale * token + position, and a norm may follow it."""
    norm = stack.ln_embedding or stack.ln_first
    e_RD, h_RD = ops.embed_norm(ids_R, pos_R, stack.wte_VD, stack.wpe_ND, scale, norm)
    if stack.ln_embedding:
        e_RD = h_RD
        if stack.is_pre_norm:
            return ops.residual_norm(e_RD, None, None, stack.ln_first)
    return (e_RD, h_RD) if stack.is_pre_norm else (e_RD, e_RD)


def add_norm(x_RD, a_RX, weight, norm, stack, ops):
    """(x', h'): h' = LN(x + a W + bias), and x' is the sum itself in pre-norm and h' in post-norm."""
    x_RD, h_RD = residual_norm(ops, x_RD, a_RX, weight, norm)
    return (x_RD if stack.is_pre_norm else h_RD), h_RD


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FairseqConfig(TranslatorConfig):
    """The values of a fairseq Transformer's Namespace that change what is computed, and the sizes of its dictionaries.

    What config.json leaves out has the default of the architecture that `arch` names. FSMT's config.json, whose names
    are those of transformers, is read too.
    """

    WIDTH, CONTEXT, FEED_FORWARD = "encoder_embed_dim", "max_target_positions", "decoder_ffn_embed_dim"
    SIZES = ("src_vocab_size", "tgt_vocab_size", "encoder_embed_dim", "encoder_layers", "encoder_ffn_embed_dim",
             "encoder_attention_heads", "decoder_layers", "decoder_ffn_embed_dim", "decoder_attention_heads",
             "max_source_positions", "max_target_positions")  # fmt: skip
    FLAGS = ("encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos", "decoder_learned_pos",
             "share_all_embeddings", "share_decoder_input_output_embed", "no_scale_embedding", "layernorm_embedding",
             "no_token_positional_embeddings", "no_encoder_final_norm", "no_decoder_final_norm")  # fmt: skip
    ALIASES: ClassVar[dict[str, str]] = {"activation_fn": "activation_function"}
    OF_TRANSFORMER: ClassVar[dict[str, Any]] = {
        "encoder_embed_dim": 512, "encoder_ffn_embed_dim": 2048, "encoder_layers": 6, "encoder_attention_heads": 8,
        "decoder_layers": 6, "decoder_attention_heads": 8,
    }  # fmt: skip
    OF_BIG: ClassVar[dict[str, Any]] = {
        "encoder_embed_dim": 1024, "encoder_ffn_embed_dim": 4096, "encoder_layers": 6, "encoder_attention_heads": 16,
        "decoder_layers": 6, "decoder_attention_heads": 16,
    }  # fmt: skip
    OF_BART: ClassVar[dict[str, Any]] = OF_BIG | {
        "encoder_layers": 12, "decoder_layers": 12, "encoder_learned_pos": True, "decoder_learned_pos": True,
        "share_all_embeddings": True, "no_scale_embedding": True, "layernorm_embedding": True, "activation_fn": "gelu",
    }  # fmt: skip
    T2T: ClassVar[dict[str, Any]] = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    ARCHITECTURES: ClassVar[dict[str, dict[str, Any]]] = {
        "transformer": OF_TRANSFORMER, "transformer_wmt_en_de": OF_TRANSFORMER,
        "transformer_iwslt_de_en": OF_TRANSFORMER | {
            "encoder_ffn_embed_dim": 1024, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        },
        "transformer_vaswani_wmt_en_de_big": OF_BIG, "transformer_vaswani_wmt_en_fr_big": OF_BIG,
        "transformer_wmt_en_de_big": OF_BIG, "transformer_wmt_en_de_big_t2t": OF_BIG | T2T,
        "bart_large": OF_BART,
        "bart_base": OF_BART | {
            "encoder_embed_dim": 768, "encoder_ffn_embed_dim": 3072, "encoder_layers": 6, "decoder_layers": 6,
            "encoder_attention_heads": 12, "decoder_attention_heads": 12,
        },
    }  # fmt: skip
    ACTIVATIONS: ClassVar[dict[str, str]] = {"gelu_accurate": "gelu_new", "relu_squared": "relu2"}  # fairseq's names
    UNTIED_TABLE_NAMES: ClassVar[tuple[str, ...]] = (
        "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "decoder.output_projection.weight",
    )  # fmt: skip
    OF_FSMT: ClassVar[dict[str, str]] = {  # transformers' names, and fairseq's
        "encoder_ffn_dim": "encoder_ffn_embed_dim", "decoder_ffn_dim": "decoder_ffn_embed_dim",
        "d_model": "encoder_embed_dim", "tie_word_embeddings": "share_all_embeddings",
    }  # fmt: skip
    REFUSED: ClassVar[dict[str, str]] = {
        "adaptive_softmax_cutoff": "a head in clusters of rare words (adaptive softmax)",
        "adaptive_input": "embeddings in clusters of rare words (adaptive input)",
        "cross_self_attention": "one attention over source and target together",
        "no_cross_attention": "a decoder that does not see the source",
        "encoder_layers_to_keep": "layers that are left out (pruning)",
        "decoder_layers_to_keep": "layers that are left out (pruning)",
        "merge_src_tgt_embed": "one table of two dictionaries",
        "base_layers": "layers of experts (BASE)",
        "char_inputs": "embeddings made of characters",
        **dict.fromkeys(("scale_attn", "scale_fc", "scale_heads", "scale_resids"), "more norms and gains (NormFormer)"),
    }  # fmt: skip

    model_type: str = "fairseq"
    src_vocab_size: int
    tgt_vocab_size: int
    encoder_embed_dim: int
    encoder_ffn_embed_dim: int
    decoder_ffn_embed_dim: int
    max_source_positions: int = 1024
    max_target_positions: int = 1024
    activation_function: str = "relu"
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    encoder_learned_pos: bool = False
    decoder_learned_pos: bool = False
    share_all_embeddings: bool = False
    share_decoder_input_output_embed: bool = False
    no_scale_embedding: bool = False
    layernorm_embedding: bool = False
    no_token_positional_embeddings: bool = False
    no_encoder_final_norm: bool = False  # ours: of the oldest files
    no_decoder_final_norm: bool = False

    def __post_init__(self):
        self.check()
        self.check_heads("encoder_embed_dim", "encoder_attention_heads")
        self.check_heads("encoder_embed_dim", "decoder_attention_heads")
        if self.share_all_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise CheckpointError(
                f"config.json: share_all_embeddings needs one dictionary, and src_vocab_size is {self.src_vocab_size} "
                f"and tgt_vocab_size {self.tgt_vocab_size}: one of the three is not this model's"
            )
        for side, name in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
            if not (self.learns_positions(side) or self.no_token_positional_embeddings):
                self.check_sinusoids(name)

    def check_sinusoids(self, name: str) -> None:
        self.check_positions(name, self.width)
        if self.width < 4:
            raise CheckpointError(f"config.json: encoder_embed_dim {self.width} is too small for sinusoids: 4 is least")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        given = {name: value for name, value in fields.items() if value is not None}
        if given.get("model_type") == "fsmt":
            given = cls._fields_of_fsmt(given)
        for name, what in cls.REFUSED.items():
            if given.get(name):
                raise CheckpointError(f"config.json: {name}={shown(given[name], 60)} is not supported: {what}")
        defaults = cls.ARCHITECTURES.get(str(given.get("arch", "transformer")), {})
        needed = ["src_vocab_size", "tgt_vocab_size", *cls.OF_TRANSFORMER]
        if missing := [name for name in needed if name not in defaults | given]:
            what = (
                "how many words its dictionary has, with the four special ones" if missing[0].endswith("vocab_size")
                else f"the architecture {given.get('arch')!r:.60} is not known, so its defaults are not"
            )  # fmt: skip
            raise CheckpointError(f"config.json: {missing[0]} is missing ({what}): add it")
        given = defaults | given
        width = given["encoder_embed_dim"]
        for name in ("decoder_embed_dim", "decoder_input_dim", "decoder_output_dim"):
            if given.get(name, width) != width:
                raise CheckpointError(
                    f"config.json: {name}={shown(given[name], 60)} with encoder_embed_dim={shown(width, 60)} is not "
                    "supported: all widths must be equal"
                )
        given.setdefault("decoder_ffn_embed_dim", given["encoder_ffn_embed_dim"])
        for theirs, ours in cls.ACTIVATIONS.items():
            if given.get("activation_fn") == theirs:
                given["activation_fn"] = ours
        return super().from_json(given)

    @classmethod
    def _fields_of_fsmt(cls, given: dict[str, Any]) -> dict[str, Any]:
        """A config of FSMT under fairseq's names; transformers leaves out what has its default."""
        given = {
            "src_vocab_size": 42024, "tgt_vocab_size": 42024, "d_model": 1024, "max_position_embeddings": 1024,
            "encoder_ffn_dim": 4096, "encoder_layers": 12, "encoder_attention_heads": 16, "decoder_ffn_dim": 4096,
            "decoder_layers": 12, "decoder_attention_heads": 16, "scale_embedding": True,
        } | given  # fmt: skip
        most, scales = given.pop("max_position_embeddings"), given.pop("scale_embedding")
        given = {cls.OF_FSMT.get(name, name): value for name, value in given.items()}
        return given | {
            "max_source_positions": most, "max_target_positions": most,
            "no_scale_embedding": not scales if isinstance(scales, bool) else scales,
        }  # fmt: skip

    def is_pre_norm(self, side: str) -> bool:
        """Whether the encoder or the decoder has a norm before each sublayer, not behind it."""
        return getattr(self, f"{side}_normalize_before")

    def has_final_norm(self, side: str) -> bool:
        """Whether a norm follows the last layer; in post-norm the last sublayer ends in one anyway."""
        return self.is_pre_norm(side) and not getattr(self, f"no_{side}_final_norm")

    def learns_positions(self, side: str) -> bool:
        """Whether a table of positions is in the file; sinusoids are computed."""
        return getattr(self, f"{side}_learned_pos") and not self.no_token_positional_embeddings

    @property
    def table_names(self) -> tuple[str, str, str]:
        """The names of the tensors that hold the tokens of the source, those of the target, and the head."""
        source, target, head = self.UNTIED_TABLE_NAMES
        if self.share_all_embeddings:
            return source, source, source
        return source, target, target if self.share_decoder_input_output_embed else head

    def sinusoids(self, side: str) -> np.ndarray:
        """The table of positions of the encoder or the decoder: the first token's is 2, for padding has 1."""
        return make_sinusoid_table(
            2, self.source_context if side == "encoder" else self.context, self.frequencies(), self.width
        )

    def frequencies(self) -> np.ndarray:
        return sinusoid_frequencies(self.width)

    @property  # type: ignore[misc]  # a field of other families
    def vocab_size(self) -> int:
        """The target's, whose tokens are generated."""
        return self.tgt_vocab_size

    @property
    def source_vocab_size(self) -> int:
        return self.src_vocab_size

    @property
    def shares_vocabulary(self) -> bool:
        return self.share_all_embeddings

    @property
    def source_context(self) -> int:
        return self.max_source_positions

    def complete_from_weights(self, stored: dict[str, Any], equal: Callable[..., bool]) -> FairseqConfig:
        """The config as the file answers it: FSMT's head is the target's table, unless there is one of its own."""
        has_head = self.UNTIED_TABLE_NAMES[2] in stored or PREFIX + self.UNTIED_TABLE_NAMES[2] in stored
        return self if has_head or self.model_type != "fsmt" else replace(self, share_decoder_input_output_embed=True)


def sinusoid_frequencies(D: int) -> np.ndarray:
    """w_i = 10000^(-i / (D/2 - 1)): fairseq's sinusoids end at 1/10000 exactly, unlike those of the paper."""
    half = D // 2
    return 10000.0 ** (-np.arange(half) / (half - 1))


FSMT_DEFAULTS = {
    "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2,
    "num_beams": 5, "max_length": 200,
}  # fmt: skip


# ---- tensors ---------------------------------------------------------------------------------------------------------
# Files of fairseq's Transformer, and of FSMT, which has the same names: their tensors, and where each goes.

OPTIONAL = ()
SUBLAYERS = {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}


def ignored_tensors(c: FairseqConfig) -> str:
    """Buffers: a version, and the sinusoids, which are computed."""
    computed = "".join(f"|{side}\\.embed_positions\\.weight" for side in SUBLAYERS if not c.learns_positions(side))
    return rf"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights)){computed}"


def tensor_shapes(c: FairseqConfig) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every tensor in a file of config `c`."""
    D = c.width
    tables = zip(c.table_names, ((V, D) for V in (c.src_vocab_size, c.vocab_size, c.vocab_size)), strict=True)
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
                products += [(f"{attention}.{part}_proj", *shape) for part, shape in widths.items()]
            products += [(f"{layer}.fc1", F, D), (f"{layer}.fc2", D, F)]
        shapes |= shapes_of_norms_and_products(D, norms, products)
    return shapes


def bind(c: FairseqConfig, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward passes read; projections that share an input become one matrix."""
    named = NamedTensors(tensors, 1e-5)
    norm, weight = named.norm, named.weight

    def bind_stack(side, wte, kind, window=None):
        layers, h = c.stacks[side]
        names = [f"{side}.layers.{i}.{name}_layer_norm" for i in range(layers) for name in SUBLAYERS[side]]
        norms = [norm(name) for name in names]
        last = norm(f"{side}.layer_norm") if c.has_final_norm(side) else norms[-1]
        after = iter([*norms[1:], last] if c.is_pre_norm(side) else norms)  # in the order of the sublayers
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
        return Stack(
            wte, bind_position_table(side, wte.dtype), ln_embedding, tuple(blocks), norms[0], c.is_pre_norm(side), ends
        )

    def bind_position_table(side, dtype):
        if c.learns_positions(side):
            return tensors[f"{side}.embed_positions.weight"][2:]
        return None if c.no_token_positional_embeddings else c.sinusoids(side).astype(dtype)

    source, target, head = (tensors[name] for name in c.table_names)
    layers = (f"decoder.layers.{i}" for i in range(c.decoder_layers))
    return Weights(
        bind_stack("decoder", target, DecoderBlock, c.attention_window),
        1.0 if c.no_scale_embedding else math.sqrt(c.width), c.activation_function, Weight(head, layout="oi"),
        encoder=bind_stack("encoder", source, EncoderBlock),
        cross_kv=weight(*(f"{layer}.encoder_attn.{p}_proj" for layer in layers for p in "kv")),
    )  # fmt: skip
