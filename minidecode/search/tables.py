"""Tables: what score processors need at every step, made on the host once and kept where the texts lie.

A captured step can bring no array over. So what a processor needs has its name, and is made at the first step that
asks, by the function that `acts` names; `make_tables` in processors.py makes all at once. The tables of a search are a
part of its state: a kept step reads the same arrays in every generation, and a new one writes its numbers there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..options.options import Options
from .rows import Rows

FREE = -1  # in a sequence: no token stands here, and any text fits
NO_SEQUENCE = -2  # the last token of what only fills a list up
ROUNDED_TO = 64  # sources are filled up, so that a kept graph takes others of about the same length


def arrays_of_tables(tables: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """(name, array) of all of them."""
    for (name, *_), made in tables.items():
        for array in made if isinstance(made, tuple) else (made,):
            yield name, array


def copies_without_rows(tables: dict[Any, Any]) -> dict[Any, Any]:
    """Copies of those that stay right when rows leave: the others' bucket may be another generation's by then."""
    return {key: _copy_table(made) for key, made in tables.items() if key[1] is None}


def _copy_table(made: Any) -> Any:
    return tuple(map(_copy_table, made)) if isinstance(made, tuple) else made.copy()


# ---- what they hold --------------------------------------------------------------------------------------------------


def unique_ids(ids: Iterable[int]) -> np.ndarray:
    """Token ids, each once."""
    return np.array(list(dict.fromkeys(ids)), np.int64)


def sequence_biases(biases: Iterable[tuple[Sequence[int], float]]) -> tuple[np.ndarray, np.ndarray]:
    """One list of (sequence, bias) for all rows, as `bias_sequences` takes it."""
    return lists_of_sequences([list(biases)])


def lists_of_sequences(lists: list[list[tuple[Sequence[int], float]]]) -> tuple[np.ndarray, np.ndarray]:
    """(ids_XXX, bias_XX): lists of equally many sequences of equally many tokens, right-aligned.

    Sequences with the same last token stand side by side, in the order in which they were given.
    """
    longest = max((len(ids) for biases in lists for ids, _ in biases), default=1)
    most = max(1, *map(len, lists))
    ids_XXX = np.full((len(lists), most, longest), FREE, np.int64)
    ids_XXX[:, :, -1], bias_XX = NO_SEQUENCE, np.zeros((len(lists), most))
    for x, biases in enumerate(lists):
        for s, (ids, bias) in enumerate(sorted(biases, key=lambda pair: pair[0][-1])):
            ids_XXX[x, s, longest - len(ids) :], bias_XX[x, s] = ids, bias
    return ids_XXX, bias_XX


def banned_tokens(ids: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of one token each that are ruled out."""
    return sequence_biases([((token,), -np.inf) for token in ids])


def banned_words(rows: Rows, o: Options) -> tuple[np.ndarray, np.ndarray]:
    """EOS alone is let pass, unless the dialect bans it."""
    passes = () if o.rules.bans_eos else o.eos_token_id
    return sequence_biases([(word, -np.inf) for word in o.bad_words_ids if len(word) > 1 or word[0] not in passes])


def banned_ngrams_of_sources(rows: Rows, o: Options) -> tuple[np.ndarray, np.ndarray]:
    """Every n-gram of each source once, ruled out; as many places for each as the longest, rounded up, has."""
    n = o.encoder_no_repeat_ngram_size
    if n > max(map(len, rows.sources)):  # no source has as many tokens
        places = len(rows.sources), ROUNDED_TO
        return np.full((*places, min(n, ROUNDED_TO)), NO_SEQUENCE), np.zeros(places)
    lists: list[list[tuple[Sequence[int], float]]] = []
    for source in rows.sources:
        ids = source.tolist()
        lists.append([(gram, -np.inf) for gram in dict.fromkeys(zip(*(ids[k:] for k in range(n)), strict=False))])
    ids_XXX, bias_XX = lists_of_sequences(lists)
    return _pad_second_axis(ids_XXX, NO_SEQUENCE), _pad_second_axis(bias_XX, 0)


def _pad_second_axis(array: np.ndarray, fill: float) -> np.ndarray:
    """Pads the second axis to a multiple of ROUNDED_TO."""
    places = -array.shape[1] % ROUNDED_TO
    return np.pad(array, [(0, 0), (0, places), *[(0, 0)] * (array.ndim - 2)], constant_values=fill)


def padded_sources(rows: Rows, o: Options) -> tuple[np.ndarray, np.ndarray]:
    """(source_BN, length_B)"""
    length_B = np.array([len(source) for source in rows.sources], np.int64)
    source_BN = np.zeros((len(length_B), max(1, int(length_B.max()))), np.int64)
    for b, source in enumerate(rows.sources):
        source_BN[b, : len(source)] = source
    return _pad_second_axis(source_BN, 0), length_B


def decay_growth(rows: Rows, o: Options) -> tuple[np.ndarray, np.ndarray]:
    """factor ** k - 1 of k new tokens behind the start, as NumPy computes it, for every device; and the EOS."""
    assert o.exponential_decay_length_penalty is not None
    factor = np.float64(o.exponential_decay_length_penalty[1])
    most = -(-int(rows.limit_R.max() + 1) // ROUNDED_TO) * ROUNDED_TO
    with np.errstate(over="ignore"):
        return np.array([factor**k - 1 for k in range(most)]), unique_ids(o.eos_token_id)
