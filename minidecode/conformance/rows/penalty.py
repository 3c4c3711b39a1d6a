"""Repetition penalties: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, POSITIONS, ROWS, WIDE

FETCHED = ("tokens_XM", "length_X", "list_R")  # what the NumPy code reads as Python numbers


def make_arguments(texts: list[list[int]], V: int, penalty: float, list_R: list[int] | None = None) -> tuple:
    """(scores_RV, tokens_XM, length_X, list_R, penalty); what lies behind each text is all of the vocabulary.

    Scores of both signs, zeros and tokens that are ruled out already.
    """
    length_X = np.array([len(text) for text in texts])
    tokens_XM = np.empty((len(texts), length_X.max() + 4), np.int64)
    for x, text in enumerate(texts):
        tokens_XM[x] = (text + list(range(V)) * (tokens_XM.shape[1] // V + 1))[: tokens_XM.shape[1]]
    picked_R = np.arange(len(texts)) if list_R is None else np.array(list_R)
    scores_RV = (np.arange(len(picked_R) * V, dtype=np.float32).reshape(-1, V) % 61 - 20) / 7
    scores_RV[:, 3::7] = -np.inf
    return scores_RV, tokens_XM, length_X, picked_R, penalty


@st.composite
def draw_inputs(draw):
    """Few tokens, which come again; one that has no score; rows that share a text."""
    V = draw(st.integers(1, 6))
    texts = draw(st.lists(st.lists(st.integers(0, V), max_size=6), min_size=1, max_size=3))
    list_R = draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=4))
    return make_arguments(texts, V, draw(st.sampled_from([0.5, 1.1, 1.3, 2.0, 1 / 1.7])), list_R)


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([[0, 1, 0, 0], [2, 2, 1]], 5, 2.0),  # once, however often they come
        make_arguments([[0, 1, 2, 3, 4]], 5, 1.3),
        make_arguments([[], [1]], 3, 1.5),
        make_arguments([[1], [2, 0]], 3, 1.5, [1, 0, 1]),  # of the sources of sentences
        make_arguments([[5, 1, 7]], 5, 1.5),  # beyond the scores
        make_arguments([[0, 3]], 5, 0.1),  # which float32 has not
        make_arguments([[r % 3, 1, r % 3] for r in range(130)], 4, 1.2),
    ]
    scores_RV, *rest = make_arguments([[0, 1, 2, 3], [0, 1]], 5, 1.7)
    scores_RV[0, :4], scores_RV[1, :2] = (np.nan, np.inf, -0.0, 0.0), (3e38, -3e38)
    cases.append((scores_RV, *rest))
    for length in (31, 128, 129, 300):  # past warps and blocks: the last is the first once more, in another round
        cases.append(make_arguments([[*range(length), 0, 1], [2] * length], length + 3, 1.9))
    return cases


def large_cases() -> list[tuple]:
    """Many rows, long texts, and tokens that sixteen bits do not count."""
    rows = [r % 2 for r in range(ROWS)]
    many = make_arguments([[0, 2], [1, 1]], 3, 1.3, rows)
    return [
        *(make_arguments([[*range(n), 0], [n]], n + 1, 1.3) for n in BOUNDARIES),
        make_arguments([[5, WIDE - 1], [WIDE - 2, 7]], WIDE, 1.3),
        make_arguments([list(range(POSITIONS)), [3]], POSITIONS, 1.3),
        many,
        (np.resize(many[0], (MANY_ROWS, 3)), *many[1:3], np.resize(many[3], MANY_ROWS), 1.3),
    ]


def oracle(scores_RV, tokens_XM, length_X, list_R, penalty):
    """In float64 of the penalty as the scores' dtype has it, rounded once: so it is that dtype's own."""
    result_RV, penalty = scores_RV.copy(), float(scores_RV.dtype.type(penalty))
    for r, x in enumerate(list_R.tolist()):
        for v in {token for token in tokens_XM[x, : length_X[x]].tolist() if token < scores_RV.shape[1]}:
            score = float(scores_RV[r, v])
            with np.errstate(over="ignore"):
                result_RV[r, v] = scores_RV.dtype.type(score * penalty if score < 0 else score / penalty)
    return result_RV


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of 32 sentences of 4 beams, 140 tokens each, GPT-2's vocabulary."""
    rng = np.random.default_rng(seed)
    rows, length, vocabulary = 128, 140, 50257
    scores_RV = 3 * rng.standard_normal((rows, vocabulary)).astype(np.float32)
    tokens_XM = rng.integers(0, vocabulary, (rows, length))
    shape = f"{rows} rows of {length} tokens, V = {vocabulary:,}"
    return (scores_RV, tokens_XM, np.full(rows, length), np.arange(rows), 1.2), shape
