"""What an encoder alone (BERT) makes of texts: rows, vectors and labels.

The tokens of many texts are rows of one batch, without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cache.no_cache import NoCache
from ..cache.padding import offsets_from_lengths
from ..device.arrays import fetch, put
from ..device.blas_threads import few_blas_threads
from ..errors import InputError, NumericalError, OptionError, counted
from ..plan import Plan
from ..runtime.inputs import Inputs, Texts
from ..runtime.prompts import advise_truncate, cut_before_closing, split_ids_and_mask, token_rows
from ..runtime.receipt import CountedOps
from ..search.compiled import ENCODER_ROWS, load_or_reason_for_numpy, work_of_encoder
from .loaded import LoadedModel, explain_nan
from .out_of_memory import retries_after_freeing

ROWS = 2048  # of a forward pass, unless a text alone has more


@dataclass(frozen=True)
class Classified:
    """The label of a text. `scores` has that of each label, the highest first."""

    label: str
    score: float
    scores: dict[str, float]


@dataclass(frozen=True)
class TokenLabel:
    """The label of a token, which stands at text[start:end]."""

    text: str
    start: int
    end: int
    label: str
    score: float


@retries_after_freeing
def encode(
    model: LoadedModel, texts: Texts | None = None, *, input_ids: Any = None, attention_mask: Any = None,
    token_type_ids: Any = None, pooling: str | None = None, normalize: bool | None = None, truncate: bool = False,
    plan: str | Plan | None = None, progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:  # fmt: skip
    """One vector for each text, x_BD: for search and for comparing texts, by an encoder such as BERT.

        model = md.load("minilm")
        a, b = model.encode(["How old are you?", "What is your age?"])
        print(a @ b)

    texts: one or several; or input_ids and attention_mask (and token_type_ids, by default 0).
    pooling: "mean" of a text's rows, [CLS] and [SEP] included, "cls" (the first row), "max" (of each
        number), or "pooler" (tanh of a product of the first row). By default what the files of
        sentence-transformers say, and without them the mean.
    normalize: divide each vector by its length, so that products are cosines; by default as the files say.
    truncate: cut texts that are too long, in front of their last token, as sentence-transformers does unasked.
    The files' default prompt is put in front of texts, and texts are lowered, where the files say so.
    plan: overrides the one given to `load`. progress: called with (texts done, of how many).

    The tokens of all texts are rows of one batch: padding costs nothing, as there is none. A text gives the same
    vector alone and in any batch, up to rounding. Raises InputError on texts that cannot be used, OptionError on
    options and on models that are no encoders.
    """
    check_is_encoder(model)
    pooling, normalize = model.sentences.choose_settings(pooling, normalize)
    if pooling == "pooler" and model.weights.pooler is None:
        raise OptionError("pooling=pooler: the model's files hold no pooler.dense.weight: choose mean, cls or max")
    if texts is not None and not isinstance(texts, Mapping):
        texts = [model.sentences.prepare_text(text) for text in list_texts(texts, "texts")]
    read = read_inputs(model, texts, None, input_ids, attention_mask, token_type_ids, truncate)
    ops = ops_to_encode(model, read, plan)
    with few_blas_threads(model.is_small), np.errstate(all="ignore"):
        rows = encode_rows(model, ops, read, pooling in ("cls", "pooler"), progress)
        x_BD = pool_vectors(rows, model.network, model.weights, ops, pooling)
    refuse_nonfinite(model, x_BD)
    return (normalize_vectors(x_BD) if normalize else x_BD).astype(model.weights.wte_VD.dtype, copy=False)


@retries_after_freeing
def encode_tokens(
    model: LoadedModel, texts: Texts | None = None, *, text_pairs: str | Sequence[str] | None = None,
    input_ids: Any = None, attention_mask: Any = None, token_type_ids: Any = None, truncate: bool = False,
    plan: str | Plan | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """The last layer's row of each token, an array (N, D) for each text. Arguments as for `encode`.

    text_pairs: of each text the one that is read behind it, as the other type of tokens.
    """
    check_is_encoder(model)
    read = read_inputs(model, texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate)
    ops, rows = ops_to_encode(model, read, plan), []
    with few_blas_threads(model.is_small):
        for x_RD, offsets_X in encode_rows(model, ops, read):
            rows += np.split(fetch(x_RD), offsets_X[1:-1])
    return rows


@retries_after_freeing
def classify(
    model: LoadedModel, texts: Texts | None = None, *, text_pairs: str | Sequence[str] | None = None,
    input_ids: Any = None, attention_mask: Any = None, token_type_ids: Any = None, truncate: bool = False,
    plan: str | Plan | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Classified]:  # fmt: skip
    """The label of each text, by an encoder with a classifier; arguments as for `encode` and `encode_tokens`.

    Scores are a softmax; a sigmoid each, if config.json's problem_type says that several labels may hold or there
    is one label; and the numbers themselves of a regression. For labels of tokens: `classify_tokens`.
    """
    check_classifies(model, "classify", of_tokens=False)
    read = read_inputs(model, texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate)
    ops, logits = ops_to_encode(model, read, plan), []
    with few_blas_threads(model.is_small), np.errstate(all="ignore"):
        for x_RD, _ in encode_rows(model, ops, read, True, progress):
            pooled_RD = x_RD if model.weights.pooler is None else model.network.apply_pooler(model.weights, x_RD, ops)
            logits.append(fetch(model.network.label_logits(model.weights, pooled_RD, ops)))
    logits_XX = np.concatenate(logits)
    refuse_nonfinite(model, logits_XX)
    return [classification_of(row, model.config.labels) for row in label_scores(logits_XX, model.config.problem_type)]


@retries_after_freeing
def classify_tokens(
    model: LoadedModel, texts: str | Sequence[str], *, truncate: bool = False, plan: str | Plan | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[TokenLabel]]:  # fmt: skip
    """The label of each token of each text, special tokens left out; for instance names of people and places.

    Arguments as for `encode`. A label's score is a softmax over all labels.
    """
    check_classifies(model, "classify_tokens", of_tokens=True)
    texts = list_texts(texts, "texts")
    read = read_inputs(model, texts, None, None, None, None, truncate, with_places=True)
    ops, scores = ops_to_encode(model, read, plan), []
    with few_blas_threads(model.is_small), np.errstate(all="ignore"):
        for x_RD, offsets_X in encode_rows(model, ops, read, False, progress):
            logits_RX = fetch(model.network.label_logits(model.weights, x_RD, ops))
            refuse_nonfinite(model, logits_RX)
            scores += np.split(label_scores(logits_RX, "single_label_classification"), offsets_X[1:-1])
    assert read.places is not None  # they were texts
    parts = zip(texts, scores, read.places, strict=True)
    return [token_labels(text, score_NX, model.config.labels, places) for text, score_NX, places in parts]


@dataclass(frozen=True)
class Read:
    """Tokens of texts, without padding; with where each stands in its text (None: it is a special one), if asked."""

    ids: list[np.ndarray]
    types: list[np.ndarray]
    places: list[list[tuple[int, int] | None]] | None = None


def read_texts(
    inputs: Inputs, texts: Any, text_pairs: Any, most: int, kinds: int, truncate: bool, with_places: bool = False
) -> Read:
    """Texts, or pairs of them, as an encoder of this many types of tokens reads them.

    Raises InputError on those that cannot be used.

    with_places: whether it is asked where each token stands, which takes ten times the memory of the token ids.
    """
    tokenizer = inputs.tokenizer
    if tokenizer is None:
        raise InputError(inputs.no_tokenizer_message("pass input_ids"))
    firsts = list_texts(texts, "texts")
    seconds = [None] * len(firsts) if text_pairs is None else list_texts(text_pairs, "text_pairs")
    if not firsts or len(seconds) != len(firsts):
        raise InputError(
            f"got {counted(len(firsts), 'text')} and {len(seconds)} text_pairs: give one or more, each its own"
        )
    if truncate and text_pairs is not None:
        raise InputError("truncate cuts single texts: leave it out, and shorten the pairs that are too long")
    if text_pairs is None:
        which = [f"text {b} of {len(firsts)}" for b in range(1, len(firsts) + 1)]
        firsts = [inputs.shorten_text(t, most, truncate, w) for t, w in zip(firsts, which, strict=True)]
    read = [tokenizer.encode_for_reading(a, b, with_places) for a, b in zip(firsts, seconds, strict=True)]
    whole = [r.ids for r in read]
    closing = inputs.count_closing(whole)
    ids = fit_rows(whole, most, None if text_pairs is not None else truncate, closing)
    types = [r.types[: len(row)] for r, row in zip(read, ids, strict=True)]
    if (most_types := 1 + max(int(row.max(initial=0)) for row in types)) > kinds:
        raise InputError(
            f"the tokenizer tells {most_types} types of tokens apart, such as those of a pair, and the model has "
            f"{kinds}: give single texts, or another model"
        )
    inputs.check_ids(ids, "text")
    places = None
    if with_places:
        each = zip(read, ids, closing, strict=True)
        places = [cut_before_closing(r.places, len(row), kept) for r, row, kept in each]
    return Read(ids, types, places)


def read_ids(
    inputs: Inputs, input_ids: Any, attention_mask: Any, token_type_ids: Any, most: int, types: int, truncate: bool
) -> Read:
    """Rows of token ids with those of their types, by default 0. Raises InputError as `read_texts` does."""
    ids = inputs.check_ids(token_rows(input_ids, attention_mask), "text")
    if token_type_ids is None:
        kinds = [np.zeros(len(row), np.int64) for row in ids]
    else:
        kinds = token_rows(token_type_ids, attention_mask, "token_type_ids")
        if [len(k) for k in kinds] != [len(row) for row in ids]:
            raise InputError("token_type_ids has not one number for each of input_ids: give both the same shape")
        if bad := [int(k) for row in kinds for k in row[(row < 0) | (row >= types)]]:
            raise InputError(f"token_type_ids must be from 0 to {types - 1}, as the model has {types}, not {bad[0]}")
    cut = fit_rows(ids, most, truncate, inputs.count_closing(ids))
    return Read(cut, [k[: len(row)] for k, row in zip(kinds, cut, strict=True)])


def fit_rows(ids: list[np.ndarray], most: int, truncate: bool | None, closing: Sequence[int]) -> list[np.ndarray]:
    """Rows of at most this many tokens: with truncate, longer ones lose what stands in front of those that close them.

    None: as in `fit_prompts`.
    """
    for b, row in enumerate(ids, 1):
        if len(row) > most and not truncate:
            who = f"text {b} of {len(ids)} has {len(row)} tokens"
            raise InputError(f"{who}, and the model reads {most}: shorten it{advise_truncate(truncate, 'it')}")
    return [cut_before_closing(row, most, kept) for row, kept in zip(ids, closing, strict=True)]


def forward_passes(
    network: Any, weights: Any, ops: CountedOps, read: Read, positions: int, device: str, first_alone: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Any, np.ndarray]]:  # fmt: skip
    """(rows, where each text begins and ends) of forward passes over some texts each, in order.

    positions: of the model, by which a row finds the sum of its position and its type. first_alone: the first row of
    each text. progress: called with (texts done, of how many).
    """
    first = 0
    while first < len(read.ids):
        behind, rows = first + 1, len(read.ids[first])
        while behind < len(read.ids) and rows + len(read.ids[behind]) <= ROWS:
            rows, behind = rows + len(read.ids[behind]), behind + 1
        lengths_B = np.array([len(row) for row in read.ids[first:behind]])
        offsets_X = offsets_from_lengths(lengths_B)
        ids_R = np.concatenate(read.ids[first:behind])
        place_R = np.arange(rows) - np.repeat(offsets_X[:-1], lengths_B)
        place_R += positions * np.concatenate(read.types[first:behind])
        ids_R, place_R, there_X = (put(array, device) for array in (ids_R, place_R, offsets_X))
        caches = [NoCache(block, there_X, causal=False) for block in weights.blocks]
        x_RD = network.forward(weights, ids_R, place_R, caches, ops, there_X[:-1] if first_alone else None)
        yield x_RD, np.arange(len(offsets_X)) if first_alone else offsets_X
        if progress is not None:
            progress(behind, len(read.ids))
        first = behind


def pool_vectors(
    rows: Iterator[tuple[Any, np.ndarray]], network: Any, weights: Any, ops: CountedOps, pooling: str
) -> np.ndarray:
    """x_BD: of each text one vector.

    mean: m = sum of rows / their number. max: of each number the largest. cls: the first row. pooler: tanh(W x + b) of
    the first row. Sums are float64.
    """
    pooled = []
    for x_RD, offsets_X in rows:
        if pooling == "pooler":
            x_RD = network.apply_pooler(weights, x_RD, ops)
        h_RD, begin_B = fetch(x_RD), offsets_X[:-1]
        if pooling == "mean":
            h_RD = np.add.reduceat(h_RD, begin_B, axis=0, dtype=np.float64) / np.diff(offsets_X)[:, None]
        elif pooling == "max":
            h_RD = np.maximum.reduceat(h_RD, begin_B, axis=0)
        pooled.append(h_RD)
    return np.concatenate(pooled)


def normalize_vectors(x_BD: np.ndarray) -> np.ndarray:
    """x / |x|, as torch has it: a length below 1e-12 counts as that."""
    return x_BD / np.maximum(np.linalg.norm(x_BD, axis=1, keepdims=True), 1e-12)


def label_scores(logits_XX: np.ndarray, problem: str | None) -> np.ndarray:
    """Logits of labels as scores: softmax, where one label is right; a sigmoid of each, where several may be.

    A single label has a sigmoid if no problem is named; a regression's numbers stay as they are.
    """
    x = logits_XX.astype(np.float64)
    if problem == "regression":
        return x
    if problem == "multi_label_classification" or (problem is None and x.shape[1] == 1):
        return 1 / (1 + np.exp(-x))
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def classification_of(score_L: np.ndarray, labels: tuple[str, ...]) -> Classified:
    """The result of one text."""
    order = np.argsort(-score_L, kind="stable")
    scores = {labels[i]: float(score_L[i]) for i in order}
    return Classified(labels[order[0]], float(score_L[order[0]]), scores)


def token_labels(
    text: str, score_NL: np.ndarray, labels: tuple[str, ...], places: list[tuple[int, int] | None]
) -> list[TokenLabel]:
    """The labels of a text's tokens, special ones left out."""
    labelled = []
    for score_L, place in zip(score_NL, places, strict=True):
        if place is not None:
            (start, end), best = place, int(score_L.argmax())
            labelled.append(TokenLabel(text[start:end], start, end, labels[best], float(score_L[best])))
    return labelled


def list_texts(texts: Any, name: str) -> list[str]:
    """A list of texts. Raises InputError on anything else, such as what a tokenizer returned."""
    is_many = hasattr(texts, "__iter__") and not isinstance(texts, Mapping)
    several: list[Any] = [texts] if isinstance(texts, str) else list(texts) if is_many else [None]
    if not all(isinstance(text, str) for text in several):
        raise InputError(f"{name} must be a text or several, not {texts!r:.80}")
    return several


def read_inputs(
    model: LoadedModel, texts, text_pairs, input_ids, attention_mask, token_type_ids, truncate: bool,
    with_places: bool = False,
) -> Read:  # fmt: skip
    """What an encoder is given, as rows of tokens that fit."""
    most, types = model.sentences.max_tokens or model.config.context, model.config.type_vocab_size
    most = min(most, model.config.context)
    if isinstance(texts, Mapping) and input_ids is None:  # of a tokenizer of transformers
        token_type_ids = texts.get("token_type_ids", token_type_ids)
        (input_ids, attention_mask), texts = split_ids_and_mask(texts, attention_mask, "texts"), None
        if token_type_ids is not None and len(token_type_ids) and np.ndim(token_type_ids[0]) == 0:
            token_type_ids = [token_type_ids]
    if (texts is None) == (input_ids is None):
        raise InputError("give either texts or input_ids (token ids)")
    if texts is not None:
        if attention_mask is not None or token_type_ids is not None:
            raise InputError("attention_mask and token_type_ids go with input_ids: texts bring their own")
        return read_texts(model.inputs, texts, text_pairs, most, types, truncate, with_places)
    if text_pairs is not None:
        raise InputError("text_pairs go with texts: with input_ids, token_type_ids say which token is of which")
    return read_ids(model.inputs, input_ids, attention_mask, token_type_ids, most, types, truncate)


def ops_to_encode(model: LoadedModel, read: Read, plan: str | Plan | None) -> CountedOps:
    """The functions of a plan, of which an encoder calls some."""
    plan = model.plan if plan is None else Plan.parse(plan)
    plan.check_of_encoder()
    plan = plan.on(model.device)
    if plan.base == "auto":
        tokens = sum(map(len, read.ids))
        work = work_of_encoder(model.parameters, model.config.vocab_size, model.config.width, tokens)
        reason = load_or_reason_for_numpy(model.weights, model.dtype, work, ENCODER_ROWS)
        plan = Plan("fast" if reason is None else "numpy")
    return CountedOps(plan.resolve(False, model.device, model.dtype)[0])


def encode_rows(
    model: LoadedModel, ops: CountedOps, read: Read, first_alone: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Any, np.ndarray]]:  # fmt: skip
    """Runs `forward_passes` with this model."""
    positions = model.config.max_position_embeddings
    return forward_passes(model.network, model.weights, ops, read, positions, model.device, first_alone, progress)


def check_is_encoder(model: LoadedModel) -> None:
    """Raises OptionError on a model that generates."""
    if not model.is_encoder:
        raise OptionError(
            f"this {model.family} writes texts, and has no vectors or labels of them: use a model of type bert, "
            "such as minilm"
        )


def check_classifies(model: LoadedModel, what: str, of_tokens: bool) -> None:
    """Raises OptionError on a model without the classifier that is asked for."""
    check_is_encoder(model)
    if model.weights.classifier is None:
        raise OptionError(f"{what}: the model's files hold no classifier.weight: use encode, or another model")
    if model.config.labels_tokens != of_tokens:
        other = "tokens, not texts: use classify_tokens" if not of_tokens else "texts, not tokens: use classify"
        raise OptionError(f"{what}: this model's classifier is one of {other}")


def refuse_nonfinite(model: LoadedModel, x_XX: np.ndarray) -> None:
    """Raises NumericalError on NaN and infinity."""
    if not np.isfinite(x_XX).all():
        raise NumericalError(f"the model's numbers are not finite{explain_nan(model, model.plan)}")
