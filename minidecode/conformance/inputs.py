"""Inputs that find mistakes: random shapes, and planted cases that random ones seldom hit.

A strategy draws the positional arguments of an op. Rows are distinct, so that row 0 for all rows is seen; what lies
behind a row's length is poison that would change the answer if it were read.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..ops import Norm


def ngram_arguments(histories: list[list[int]], n: int, V: int, poison: int = 5) -> tuple:
    """(scores_RV, tokens_RM, length_R, n); what lies behind each history would ban more if it were read.

    Scores of both signs, zeros and tokens that are ruled out already.
    """
    length_R = np.array([len(h) for h in histories])
    tokens_RM = np.empty((len(histories), length_R.max() + poison), np.int64)
    for r, history in enumerate(histories):
        tail = history[-1:] * (n - 1) + history[:1] if history else [r % V]
        tokens_RM[r] = (history + tail * tokens_RM.shape[1])[: tokens_RM.shape[1]]
    scores_RV = (np.arange(len(histories) * V, dtype=np.float32).reshape(-1, V) % 61 - 40) / 8
    scores_RV[:, 3::7] = -np.inf
    return scores_RV, tokens_RM, length_R, n


@st.composite
def ngram_inputs(draw):
    """Few tokens, so that n-grams come back; histories shorter than n, empty ones, and some longer than a tile."""
    V = draw(st.integers(2, 5))
    n = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(0, 14), min_size=1, max_size=4))
    histories = [draw(st.lists(st.integers(0, V - 1), min_size=m, max_size=m)) for m in lengths]
    for r in range(len(histories)):  # plant the row's end once more at its beginning
        if len(histories[r]) >= n + 1 and draw(st.booleans()):
            histories[r] = histories[r][len(histories[r]) - n + 1 :] + histories[r]
    return ngram_arguments(histories, n, V)


def _long_history(length: int, at: int, n: int) -> list[int]:
    """All tokens different, save that the last n-1 stand at `at` too: one ban, by the window that starts there."""
    history = list(range(length))
    history[length - n + 1 :] = history[at : at + n - 1]
    return history


def ngram_planted() -> list[tuple]:
    cases = [
        ngram_arguments([[1, 2, 1], [2, 1, 2]], 2, 3),
        ngram_arguments([[0, 0, 0]], 2, 2),  # windows overlap
        ngram_arguments([[1, 2, 3, 1, 2]], 3, 4),
        ngram_arguments([[1]], 3, 2),  # shorter than n
        ngram_arguments([[], [1, 0, 1]], 2, 2),  # empty
        ngram_arguments([[3, 1, 3]], 1, 4),  # n = 1 bans every token seen
        ngram_arguments([[1, 2, 3, 4, 5]], 2, 6),  # nothing repeats
        ngram_arguments([[2, 1, 0, 2, 1, 3, 2, 1]], 3, 4),  # two followers of one context
    ]
    rng = np.random.default_rng(0)
    cases += [
        ngram_arguments([[1, 2, 1], [0, 40_000, 7, 40_000], [7, 300, 44, 300 + 256]], 2, 50_257),  # wide token ids
        ngram_arguments([rng.integers(0, 30, 600).tolist()], 3, 30),  # many windows that nearly match
        ngram_arguments([[r % 3, 1, r % 3] for r in range(300)], 2, 3),  # more rows than a block has threads
        ngram_arguments([list(range(40)) * 2 + list(range(38)), [1, 2] * 30], 34, 41),  # a long n
        ngram_arguments([[1, 2, 3, 4, 5, 1, 2, 3, 4]], 5, 6),
        ngram_arguments([_long_history(3000, 2900, 3)], 3, 3001),
    ]
    for length, at in [(200, 150), (300, 0), (300, 255), (300, 256), (700, 511), (1100, 1050)]:  # past blocks and tiles
        cases.append(ngram_arguments([_long_history(length, at, 3), [1, 2, 1, 2]], 3, 1200))
    return cases


def norm_arguments(x_RD: np.ndarray, y_RD: np.ndarray, bias_D: np.ndarray | None, eps: float, seed: int = 0) -> tuple:
    """(x_RD, y_RD, bias_D, norm) with gains and biases that differ from column to column."""
    rng = np.random.default_rng(seed)
    D = x_RD.shape[1]
    gain_D, shift_D = (1 + 0.2 * rng.standard_normal(D)), 0.2 * rng.standard_normal(D)
    norm = Norm(gain_D.astype(np.float32), shift_D.astype(np.float32), eps)
    return x_RD.astype(np.float32), y_RD.astype(np.float32), None if bias_D is None else bias_D.astype(np.float32), norm


@st.composite
def norm_inputs(draw):
    """A few plain numbers, an outlier among them; every width up to 40, so that most are no multiple of a warp."""
    R, D = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    number = st.sampled_from([0.0, 1.0, -1.0, 0.25, -3.0, 1000.0])

    def numbers(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(number, min_size=count, max_size=count))).reshape(shape)

    bias_D = numbers(D) if draw(st.booleans()) else None
    return norm_arguments(numbers(R, D), numbers(R, D), bias_D, draw(st.sampled_from([1e-5, 1e-3])))


def norm_planted() -> list[tuple]:
    rng = np.random.default_rng(0)
    cases = []
    for D in (1, 2, 31, 32, 33, 64, 100, 257, 768, 1023, 1025, 4100):  # past warps, blocks and rooms
        x_RD, y_RD, bias_D = rng.standard_normal((5, D)), rng.standard_normal((5, D)), rng.standard_normal(D)
        x_RD[0, rng.integers(D)] = 1000.0  # an outlier
        x_RD[1], y_RD[1] = 0.1, 0.2  # equal values, whose sums round: only the biases are left
        x_RD[2] += 300.0  # far from zero, so that E[x^2] - mean^2 loses the spread
        x_RD[3], y_RD[3] = x_RD[3] * 1e-3, y_RD[3] * 1e-3  # so small that the epsilon counts
        cases += [norm_arguments(x_RD, y_RD, bias_D, 1e-5, seed=D), norm_arguments(x_RD, y_RD, None, 1e-5, seed=D)]
    many = rng.standard_normal((2, 150, 6))  # more rows than a block has threads
    return [*cases, norm_arguments(many[0], many[1], None, 1e-5)]


PLANTED = {"ngram_inputs": ngram_planted, "norm_inputs": norm_planted}
