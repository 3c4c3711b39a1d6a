"""What an encoder alone (BERT) makes of texts: rows, vectors and labels.

The tokens of many texts are rows of one batch, without padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..cache.no_cache import NoCache
from ..device.arrays import fetch, put
from ..errors import InputError
from ..runtime.inputs import Inputs
from ..runtime.prompts import cut_before, or_cut, token_rows
from ..runtime.receipt import CountedOps

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


@dataclass(frozen=True)
class Read:
    """Tokens of texts, without padding; with where each stands in its text (None: it is a special one), if asked."""

    ids: list[np.ndarray]
    types: list[np.ndarray]
    places: list[list[tuple[int, int] | None]] | None = None


def read_texts(
    inputs: Inputs, texts: Any, text_pairs: Any, most: int, kinds: int, truncate: bool, with_places: bool = False
) -> Read:
    """Texts, or pairs of them, as an encoder of so many types of tokens reads them.

    Raises InputError on those that cannot be used.

    with_places: whether it is asked where each token stands, which takes ten times the memory of the token ids.
    """
    tokenizer = inputs.tokenizer
    if tokenizer is None:
        raise InputError(inputs.no_tokenizer("pass input_ids"))
    firsts = as_texts(texts, "texts")
    seconds = [None] * len(firsts) if text_pairs is None else as_texts(text_pairs, "text_pairs")
    if not firsts or len(seconds) != len(firsts):
        raise InputError(f"there are {len(firsts)} texts and {len(seconds)} text_pairs: give one or more, each its own")
    if truncate and text_pairs is not None:
        raise InputError("truncate cuts single texts: leave it out, and shorten the pairs that are too long")
    if text_pairs is None:
        which = [f"text {b} of {len(firsts)}" for b in range(1, len(firsts) + 1)]
        firsts = [inputs.shortened(t, most, truncate, w) for t, w in zip(firsts, which, strict=True)]
    read = [tokenizer.encode_for_reading(a, b, with_places) for a, b in zip(firsts, seconds, strict=True)]
    whole = [r.ids for r in read]
    closing = inputs.closing(whole)
    ids = fitted(whole, most, None if text_pairs is not None else truncate, closing)
    types = [r.types[: len(row)] for r, row in zip(read, ids, strict=True)]
    if (most_types := 1 + max(int(row.max(initial=0)) for row in types)) > kinds:
        raise InputError(
            f"the tokenizer tells {most_types} types of tokens apart, such as those of a pair, and the model has "
            f"{kinds}: give single texts, or another model"
        )
    inputs.checked(ids, "text")
    places = None
    if with_places:
        each = zip(read, ids, closing, strict=True)
        places = [cut_before(r.places, len(row), kept) for r, row, kept in each]
    return Read(ids, types, places)


def read_ids(
    inputs: Inputs, input_ids: Any, attention_mask: Any, token_type_ids: Any, most: int, types: int, truncate: bool
) -> Read:
    """Rows of token ids with those of their types, by default 0. Raises InputError as `read_texts` does."""
    ids = inputs.checked(token_rows(input_ids, attention_mask), "text")
    if token_type_ids is None:
        kinds = [np.zeros(len(row), np.int64) for row in ids]
    else:
        kinds = token_rows(token_type_ids, attention_mask, "token_type_ids")
        if [len(k) for k in kinds] != [len(row) for row in ids]:
            raise InputError("token_type_ids has not one number for each of input_ids: give both the same shape")
        if bad := [int(k) for row in kinds for k in row[(row < 0) | (row >= types)]]:
            raise InputError(f"token_type_ids must be from 0 to {types - 1}, as the model has {types}, not {bad[0]}")
    cut = fitted(ids, most, truncate, inputs.closing(ids))
    return Read(cut, [k[: len(row)] for k, row in zip(kinds, cut, strict=True)])


def fitted(ids: list[np.ndarray], most: int, truncate: bool | None, closing: Sequence[int]) -> list[np.ndarray]:
    """Rows of at most so many tokens: with truncate, longer ones lose what stands in front of those that close them.

    None: as in `fit_prompts`.
    """
    for b, row in enumerate(ids, 1):
        if len(row) > most and not truncate:
            who = f"text {b} of {len(ids)} has {len(row)} tokens"
            raise InputError(f"{who}, and the model reads {most}: shorten it{or_cut(truncate, 'it')}")
    return [cut_before(row, most, kept) for row, kept in zip(ids, closing, strict=True)]


def rows_of(
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
        offsets_X = np.concatenate([[0], np.cumsum(lengths_B)])
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


def vectors(
    rows: Iterator[tuple[Any, np.ndarray]], network: Any, weights: Any, ops: CountedOps, pooling: str
) -> np.ndarray:
    """x_BD: of each text one vector.

    mean: m = sum of rows / their number. max: of each number the largest. cls: the first row. pooler: tanh(W x + b) of
    the first row. Sums are float64.
    """
    found = []
    for x_RD, offsets_X in rows:
        if pooling == "pooler":
            x_RD = network.pooled(weights, x_RD, ops)
        h_RD, begin_B = fetch(x_RD), offsets_X[:-1]
        if pooling == "mean":
            h_RD = np.add.reduceat(h_RD, begin_B, axis=0, dtype=np.float64) / np.diff(offsets_X)[:, None]
        elif pooling == "max":
            h_RD = np.maximum.reduceat(h_RD, begin_B, axis=0)
        found.append(h_RD)
    return np.concatenate(found)


def normalized(x_BD: np.ndarray) -> np.ndarray:
    """x / |x|, as torch has it: a length below 1e-12 counts as that."""
    return x_BD / np.maximum(np.linalg.norm(x_BD, axis=1, keepdims=True), 1e-12)


def scores_of(logits_XX: np.ndarray, problem: str | None) -> np.ndarray:
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


def classified(score_L: np.ndarray, labels: tuple[str, ...]) -> Classified:
    """The result of one text."""
    order = np.argsort(-score_L, kind="stable")
    scores = {labels[i]: float(score_L[i]) for i in order}
    return Classified(labels[order[0]], float(score_L[order[0]]), scores)


def token_labels(
    text: str, score_NL: np.ndarray, labels: tuple[str, ...], places: list[tuple[int, int] | None]
) -> list[TokenLabel]:
    """The labels of a text's tokens, special ones left out."""
    found = []
    for score_L, place in zip(score_NL, places, strict=True):
        if place is not None:
            (start, end), best = place, int(score_L.argmax())
            found.append(TokenLabel(text[start:end], start, end, labels[best], float(score_L[best])))
    return found


def as_texts(texts: Any, name: str) -> list[str]:
    """A list of texts. Raises InputError on anything else, such as what a tokenizer returned."""
    is_many = hasattr(texts, "__iter__") and not isinstance(texts, Mapping)
    found = [texts] if isinstance(texts, str) else list(texts) if is_many else [None]
    if not all(isinstance(text, str) for text in found):
        raise InputError(f"{name} must be a text or several, not {texts!r:.80}")
    return found
