"""Biases of tokens that would complete a sequence: inputs that find mistakes, and what is right."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ..sizes import MANY_ROWS, POSITIONS, ROWS, WIDE

FETCHED = ("tokens_RM", "length_R", "list_R", "ids_XXX", "bias_XX")  # what the NumPy code reads as Python numbers

OFF, NAN = -np.inf, np.nan


def make_arguments(texts: list[list[int]], lists: list[list[tuple]], V: int, list_R: list[int] | None = None) -> tuple:
    """(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX); a list's pairs are (sequence, bias).

    What lies behind each text would make other sequences fit. Scores of both signs; some are ruled out already.
    """
    length_R = np.array([len(text) for text in texts])
    tokens_RM = np.empty((len(texts), length_R.max() + 3), np.int64)
    for r, text in enumerate(texts):
        tokens_RM[r] = [*text, 0, 1, 2, *range(length_R.max())][: tokens_RM.shape[1]]
    most, longest = max(map(len, lists)), max(len(ids) for pairs in lists for ids, _ in pairs)
    ids_XXX, bias_XX = np.full((len(lists), most, longest), -1), np.zeros((len(lists), most))
    ids_XXX[:, :, -1] = -2
    for x, pairs in enumerate(lists):
        for s, (ids, bias) in enumerate(sorted(pairs, key=lambda pair: pair[0][-1])):
            ids_XXX[x, s, longest - len(ids) :], bias_XX[x, s] = ids, bias
    scores_RV = (np.arange(len(texts) * V, dtype=np.float32).reshape(-1, V) % 61 - 40) / 7
    scores_RV[:, 3::7] = OFF
    picked_R = np.zeros(len(texts), np.int64) if list_R is None else np.array(list_R)
    return scores_RV, tokens_RM, length_R, picked_R, ids_XXX, bias_XX


@st.composite
def draw_inputs(draw):
    """Few tokens, so that sequences fit; several lists, and rows that take none; sums that round."""
    V = draw(st.integers(1, 4))
    token = st.integers(0, V - 1)
    texts = draw(st.lists(st.lists(token, max_size=4), min_size=1, max_size=3))
    bias = st.sampled_from([OFF, 0.1, -0.7, 3e5, 1e-3])
    pair = st.tuples(st.lists(token, min_size=1, max_size=3).map(tuple), bias)
    lists = draw(st.lists(st.lists(pair, min_size=1, max_size=5), min_size=1, max_size=2))
    picked = st.lists(st.integers(-1, len(lists) - 1), min_size=len(texts), max_size=len(texts))
    return make_arguments(texts, lists, V, draw(picked))


def planted_cases() -> list[tuple]:
    some = [((2,), OFF), ((1, 2), 0.5), ((0, 1, 3), 2.0), ((0,), -1.5)]
    cases = [
        make_arguments([[0, 1], [1], []], [some], 5),  # some are longer than the text
        make_arguments([[0, 1], [1], [0, 1]], [some], 5, [0, -1, 0]),  # a row that takes none
        make_arguments([[0, 1], [0, 1]], [some, [((1, 4), 3.0)]], 5, [1, 0]),  # a list for each row
        make_arguments([[1]], [[((0, 1, 2), OFF), ((1, 1, 2), OFF), ((1, 2), 1.0)]], 5),  # only the end of a beginning
        make_arguments([[1, 1]], [[((1, 1, 1), 0.3), ((1, 1), 0.3), ((1,), 0.3)]], 2),  # three for one token
        make_arguments([[1]], [[((0,), 1e8), ((0,), 1.0), ((0,), -1e8)]], 2),  # in another order it is another sum
        make_arguments([[1]], [[((0,), 1.0), ((0,), OFF), ((0,), 2.0)]], 2),
        make_arguments([[1, 9]], [[((9, 2), OFF), ((9, 9), OFF), ((7,), OFF)]], 5),  # tokens that have no score
        make_arguments([[3], [4]], [[((v,), OFF) for v in range(0, 40, 3)]], 41),
    ]
    scores_RV, *rest = make_arguments([[1], [1]], [[((0,), OFF), ((1,), 2.0), ((2,), 1.0)]], 4)
    scores_RV[0, :3] = NAN, NAN, np.inf
    scores_RV[1, 0] = np.inf
    cases.append((scores_RV, *rest))
    for count in (31, 33, 129, 300):  # past warps and blocks: the last of them fits, and the first
        pairs = [((1, v), 0.25 * v) for v in range(count - 1)] + [((2, count), OFF)]
        cases.append(make_arguments([[2], [1]], [pairs], count + 2))
    one_group = [((v % 3, 5), 0.1 * v) for v in range(200)]  # all have the same last token: one thread's work
    return [*cases, make_arguments([[0], [2], [1]], [one_group, one_group[:7]], 7, [0, 1, 0])]


def large_cases() -> list[tuple]:
    """Many rows, many sequences, long texts and long sequences, and tokens that sixteen bits do not count."""
    wide = [((WIDE - 1, 5), OFF), ((5, WIDE - 1), OFF), ((WIDE - 2**16 - 1, 6), 1.0)]
    text = list(range(POSITIONS))
    pairs = [((1, v), 0.5) for v in range(5)]
    many = make_arguments([[1]] * ROWS, [pairs], 6, [-1] * (ROWS - 1) + [0])
    very_many = tuple(np.resize(a, (MANY_ROWS, *a.shape[1:])) for a in many[:4])
    very_many[3][:-1], very_many[3][-1] = -1, 0
    return [
        make_arguments([[WIDE - 1], [5]], [wide], WIDE),
        make_arguments([text, text[:-2]], [[((*text[-20:], 3), OFF), ((*text[-22:-2], 4), OFF)]], 9),
        make_arguments([[1], [2]], [[((v % 2 + 1, v % 50), 0.1) for v in range(POSITIONS)]], 50),
        many,
        (*very_many, *many[4:]),
        make_arguments([[1]] * 3, [pairs] * 2 + [[((1, 5), OFF)]], 6, [2, 0, 2]),
    ]


def oracle(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX):
    """A sequence fits if the text and its last token end with it; sums begin at 0, in the scores' dtype."""
    result_RV, number = scores_RV.copy(), scores_RV.dtype.type
    for r, x in enumerate(list_R.tolist()):
        text = tokens_RM[r, : length_R[r]].tolist()
        for v in range(scores_RV.shape[1]) if x >= 0 else ():
            mine = [s for s, ids in enumerate(ids_XXX[x].tolist()) if ids[-1] == v]
            words = [[i for i in ids_XXX[x, s].tolist() if i >= 0] for s in mine]
            fit = [s for s, word in zip(mine, words, strict=True) if [*text, v][-len(word) :] == word]
            gain = number(0)
            for s in fit:
                gain += number(bias_XX[x, s])
            if fit:
                result_RV[r, v] = OFF if gain == OFF else result_RV[r, v] + gain
    return result_RV


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of 32 sentences of 4 beams, GPT-2's vocabulary: 1,000 banned words of three tokens."""
    rng = np.random.default_rng(seed)
    rows, words, vocabulary = 128, 1000, 50257
    ids_XXX = rng.integers(0, vocabulary, (1, words, 3))
    ids_XXX[0, ::10, :2] = -1  # a tenth are one token
    ids_XXX = ids_XXX[:, np.argsort(ids_XXX[0, :, -1])]
    tokens_RM = rng.integers(0, vocabulary, (rows, 140))
    scores_RV = np.full((rows, vocabulary), -seed, np.float32)
    given = scores_RV, tokens_RM, np.full(rows, 140), np.zeros(rows, np.int64), ids_XXX, np.full((1, words), -np.inf)
    return given, f"{rows} rows, {words:,} words of 3 tokens, V = {vocabulary:,}"
