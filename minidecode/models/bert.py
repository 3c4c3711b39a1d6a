"""BERT: the forward pass of an encoder whose rows are the result, the config and the tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..errors import CheckpointError, shown
from ..ops import Heads, Norm, Weight
from .bart import EncoderBlock, encoder_layer
from .config import Config, ModelWeights, NamedTensors, check_epsilon, shapes_of_norms_and_products
from .products import activated_product, product


@dataclass(frozen=True)
class Weights(ModelWeights):
    wte_VD: Any
    place_XD: Any  # row t*P + p: the embedding of position p plus that of token type t, for P positions
    ln_embedding: Norm
    blocks: tuple[EncoderBlock, ...]
    activation: str
    pooler: Weight | None
    classifier: Weight | None


def forward(w: Weights, ids_R, place_R, caches, ops, pick_R=None):
    """Token ids and their places in the table, one row each, no padding -> x_RD; of the rows in pick_R alone.

    Every row looks at all rows of its text. After the last layer's attention, rows that are not asked for are left out.
    """
    _, x_RD = ops.embed_norm(ids_R, place_R, w.wte_VD, w.place_XD, 1.0, w.ln_embedding)
    for block, cache in zip(w.blocks, caches, strict=True):
        x_RD = encoder_layer(x_RD, block, cache, w.activation, ops, pick_R if block is w.blocks[-1] else None)
    return x_RD


def apply_pooler(w: Weights, x_RD, ops):
    """First rows of texts -> tanh(W x + b), which BERT was trained to say something of the whole text."""
    return activated_product(ops, x_RD, w.pooler, "tanh")


def label_logits(w: Weights, x_RD, ops):
    """Pooled rows, or the rows of tokens -> a number for each label."""
    assert w.classifier is not None  # a model without one has been refused
    return ops.add_bias(product(ops, x_RD, w.classifier), w.classifier.bias)


# ---- config.json -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BertConfig(Config):
    """The fields of a BERT `config.json` that change what is computed, with transformers' defaults."""

    WIDTH, CONTEXT, FEED_FORWARD = "hidden_size", "max_position_embeddings", "intermediate_size"
    LAYERS = ("num_hidden_layers",)
    SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size")  # fmt: skip
    FLAGS: ClassVar[tuple[str, ...]] = ("labels_tokens", "has_pooler", "has_classifier")
    ALIASES: ClassVar[dict[str, str]] = {"hidden_act": "activation_function"}
    PROBLEMS = (None, "single_label_classification", "multi_label_classification", "regression")
    # What later versions of BERT's code have, and this has not.
    FIXED: ClassVar[dict[str, Any]] = {
        "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
    }  # fmt: skip

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    activation_function: str = "gelu"
    layer_norm_eps: float = 1e-12
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")  # of the classifier
    problem_type: str | None = None
    labels_tokens: bool = False  # whether the classifier is one of tokens, not of texts
    has_pooler: bool = False  # as the file has it
    has_classifier: bool = False

    def __post_init__(self):
        self.check()
        self.check_heads("hidden_size", "num_attention_heads")
        check_epsilon(self.layer_norm_eps, "layer_norm_eps")
        if self.problem_type not in self.PROBLEMS:
            known = ", ".join(str(problem) for problem in self.PROBLEMS[1:])
            raise CheckpointError(f"config.json: problem_type {shown(self.problem_type, 60)} is not one of {known}")

    @classmethod
    def from_json(cls, fields: dict[str, Any]):
        """Takes labels from id2label; `labels_tokens` from the architecture, where the file may decide if none is."""
        if cls is BertConfig and "target_type_id" in fields:  # s2s-ft calls what it fine-tunes a BERT
            raise CheckpointError("config.json: target_type_id belongs to UniLM: set model_type to unilm")
        for name, value in cls.FIXED.items():
            if fields.get(name) not in (None, value):
                raise CheckpointError(f"config.json: {name}={shown(fields[name])} is not supported for bert")
        known = {
            "labels": cls._labels(fields),
            "labels_tokens": "ForTokenClassification" in str(fields.get("architectures")),
        }
        return super().from_json(known | {name: value for name, value in fields.items() if name not in known})

    @staticmethod
    def _labels(fields: dict[str, Any]) -> tuple[str, ...]:
        """The names of the labels in the order of their numbers; LABEL_0, LABEL_1 where config.json names none."""
        named = fields.get("id2label")
        if named is None:
            count = fields.get("num_labels", 2)
            if isinstance(count, bool) or not isinstance(count, int) or not 0 < count < 2**20:
                raise CheckpointError(f"config.json: num_labels must be an integer above 0, not {shown(count, 40)}")
            return tuple(f"LABEL_{i}" for i in range(count))
        if not isinstance(named, dict) or not named or set(named) != {str(i) for i in range(len(named))}:
            rule = "must name each label by its number from 0"
            raise CheckpointError(f"config.json: id2label {rule}, not {shown(named)}")
        labels = tuple(str(named[str(i)]) for i in range(len(named)))
        if len(set(labels)) < len(labels):
            (twice, _), *_ = Counter(labels).most_common(1)
            remedy = "give each label a name of its own"
            raise CheckpointError(f"config.json: id2label has {shown(twice, 40)} twice: {remedy}")
        return labels

    @property
    def stacks(self) -> dict[str, tuple[int, Heads]]:
        """Name -> its layers, and how each of their attentions is cut into heads."""
        return {"encoder": (self.num_hidden_layers, self.heads(self.num_attention_heads))}

    def complete_from_weights(self, stored: dict[str, Any], equal: Callable[..., bool]) -> BertConfig:
        """The config as the file answers it: whether there are a pooler and a classifier.

        A classifier without a pooler is one of tokens. Some classifiers of tokens bring a pooler that they do not use:
        config.json's `architectures` says so.
        """
        names = {name.removeprefix(PREFIX) for name in stored}
        pooler, classifier = "pooler.dense.weight" in names, "classifier.weight" in names
        return replace(
            self,
            has_pooler=pooler,
            has_classifier=classifier,
            labels_tokens=self.labels_tokens or (classifier and not pooler),
        )


# ---- tensors ---------------------------------------------------------------------------------------------------------
# BERT's files: which tensors they hold, and where each goes.

PREFIX = "bert."
LAYER = r"encoder\.layer\.\d+\."  # what the names of a layer begin with
OPTIONAL = ()
OLD = {"weight": "gamma", "bias": "beta"}  # how old files call the parts of a norm


def ignored_tensors(c) -> str:
    """What a file may hold and no model uses: a buffer of old files; the heads that BERT was trained with."""
    return r"embeddings\.position_ids|cls\..*"


def tied_tensors(c) -> dict[str, str]:
    """Tensors that a file may store in place of another, which have other names in old files."""
    return old_norm_names(tensor_shapes(c))


def old_norm_names(names: Iterable[str]) -> dict[str, str]:
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
    return shapes | shapes_of_norms_and_products(D, norms, products)


def bind(c, tensors: dict[str, Any]) -> Weights:
    """The tensors under the names that the forward pass reads; projections that share an input are one weight."""
    named = NamedTensors(tensors, c.layer_norm_eps)
    norm, weight = named.norm, named.weight

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
