"""The n-gram ban: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import BOUNDARIES, MANY_ROWS, POSITIONS, ROWS, WIDE


def make_arguments(histories: list[list[int]], n: int, V: int, poison: int = 5) -> tuple:
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
def draw_inputs(draw):
    """Few tokens, so that n-grams come back; histories shorter than n, empty ones, and some longer than a tile."""
    V = draw(st.integers(2, 5))
    n = draw(st.integers(1, 4))
    lengths = draw(st.lists(st.integers(0, 14), min_size=1, max_size=4))
    histories = [draw(st.lists(st.integers(0, V - 1), min_size=m, max_size=m)) for m in lengths]
    for r in range(len(histories)):  # plant the row's end once more at its beginning
        if len(histories[r]) >= n + 1 and draw(st.booleans()):
            histories[r] = histories[r][len(histories[r]) - n + 1 :] + histories[r]
    return make_arguments(histories, n, V)


def _make_history_with_one_ban(length: int, at: int, n: int) -> list[int]:
    """All tokens different, save that the last n-1 stand at `at` too: one ban, by the window that starts there."""
    history = list(range(length))
    history[length - n + 1 :] = history[at : at + n - 1]
    return history


def planted_cases() -> list[tuple]:
    cases = [
        make_arguments([[1, 2, 1], [2, 1, 2]], 2, 3),
        make_arguments([[0, 0, 0]], 2, 2),  # windows overlap
        make_arguments([[1, 2, 3, 1, 2]], 3, 4),
        make_arguments([[1]], 3, 2),  # shorter than n
        make_arguments([[], [1, 0, 1]], 2, 2),  # empty
        make_arguments([[3, 1, 3]], 1, 4),  # n = 1 bans every token seen
        make_arguments([[1, 2, 3, 4, 5]], 2, 6),  # nothing repeats
        make_arguments([[2, 1, 0, 2, 1, 3, 2, 1]], 3, 4),  # two followers of one context
    ]
    scores_RV, *history = make_arguments([[1, 2, 1], [2, 1, 2]], 2, 3)
    scores_RV[0], scores_RV[1, 2] = np.nan, np.nan  # stays where nothing is banned
    cases.append((scores_RV, *history))
    rng = np.random.default_rng(0)
    cases += [
        make_arguments([[1, 2, 1], [0, 40_000, 7, 40_000], [7, 300, 44, 300 + 256]], 2, 50_257),  # wide token ids
        make_arguments([rng.integers(0, 30, 600).tolist()], 3, 30),  # many windows that nearly match
        make_arguments([[r % 3, 1, r % 3] for r in range(300)], 2, 3),  # more rows than a block has threads
        make_arguments([list(range(40)) * 2 + list(range(38)), [1, 2] * 30], 34, 41),  # a long n
        make_arguments([[1, 2, 3, 4, 5, 1, 2, 3, 4]], 5, 6),
        make_arguments([_make_history_with_one_ban(3000, 2900, 3)], 3, 3001),
    ]
    for length, at in [(200, 150), (300, 0), (300, 255), (300, 256), (700, 511), (1100, 1050)]:  # past blocks and tiles
        cases.append(make_arguments([_make_history_with_one_ban(length, at, 3), [1, 2, 1, 2]], 3, 1200))
    return cases


def large_cases() -> list[tuple]:
    """Windows for each thread of a block and one more, of which the newest or the oldest bans; many rows, a long
    one, and tokens that sixteen bits do not count.
    """
    cases = []
    for n in (2, 3):
        newest = [[*range(windows - 1), *[windows] * n] for windows in BOUNDARIES]
        oldest = [_make_history_with_one_ban(windows + n - 1, 0, n) for windows in BOUNDARIES]
        cases += [make_arguments(newest, n, BOUNDARIES[-1] + 2), make_arguments(oldest, n, BOUNDARIES[-1] + 2)]
    *rows, n = make_arguments([[r % 3, 1, r % 3] for r in range(ROWS)], 2, 3)
    many_rows = [np.resize(a, (MANY_ROWS, *a.shape[1:])) for a in rows]
    many_rows[2][ROWS:-ROWS] = 0  # only the first and the last have texts: the others would take their time
    return [
        *cases,
        (*rows, n),
        (*many_rows, n),
        make_arguments([[WIDE - 1, 5, WIDE - 2, WIDE - 1, 5]], 3, WIDE),
        make_arguments([_make_history_with_one_ban(POSITIONS, POSITIONS - 9, 3)], 3, POSITIONS + 1),
        make_arguments([[20, 21, 22, 23, *range(4, 12), 70, *range(12)]], 13, 100),  # eight of twelve tokens agree
        make_arguments(
            np.random.default_rng(2).integers(0, 1000, (128, 2400)).tolist(), 3, 1000
        ),  # hashes of 16 bits would meet
    ]


def oracle(scores_RV, tokens_RM, length_R, n):
    """A token is banned if writing it would make an n-gram that the text already holds."""
    result_RV = scores_RV.copy()
    for r, length in enumerate(length_R):
        text = tokens_RM[r, :length].tolist()
        grams = {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}
        tail = text[len(text) - n + 1 :]
        if len(text) >= n - 1:
            for gram in grams:
                if list(gram[:-1]) == tail:
                    result_RV[r, gram[-1]] = -np.inf
    return result_RV


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """32 sentences of 4 beams, 140 tokens each (CNN/DailyMail's longest), GPT-2's vocabulary, n = 3."""
    rng = np.random.default_rng(seed)
    rows, length, vocabulary = 128, 140, 50257
    tokens_RM = rng.integers(0, 2000, (rows, length))
    every_R, at_R = np.arange(rows), rng.integers(0, length - 4, rows)
    for back in (2, 1):  # each row ends as it went on once before, so that a token is banned in each
        tokens_RM[every_R, length - back] = tokens_RM[every_R, at_R + 2 - back]
    scores_RV = np.full((rows, vocabulary), -seed, np.float32)
    shape = f"{rows} rows of {length} tokens, n = 3, V = {vocabulary:,}"
    return (scores_RV, tokens_RM, np.full(rows, length), 3), shape
