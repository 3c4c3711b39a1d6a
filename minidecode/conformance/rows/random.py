"""Gumbel noise by counter: inputs that find mistakes, and what is right, with a bound on the logarithms."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
from hypothesis import strategies as st

from ..sizes import MANY_ROWS, ROWS, SEVERAL_WIDE, VOCABULARY, WIDE, WIDTH
from .sample import philox_word

EPS = 2.0**-53  # of one rounding in float64


def make_arguments(keys: list, steps: list, V: int, seed: int) -> tuple:
    """(key_RX, step_R, V, seed)"""
    return np.array(keys, np.uint32), np.array(steps), V, seed


@st.composite
def draw_inputs(draw):
    """Any keys and seeds; each number depends on all of them."""
    R, word = draw(st.integers(1, 3)), st.integers(0, 2**32 - 1)
    keys = [[draw(word), draw(word)] for _ in range(R)]
    steps = [draw(st.integers(0, 70_000)) for _ in range(R)]
    return make_arguments(keys, steps, draw(st.integers(1, 12)), draw(st.integers(0, 2**64 - 1)))


def planted_cases() -> list[tuple]:
    seed = 2**63 + 5
    cases = [
        make_arguments([[7, 8]] * 3, [3, 4, 5], 9, seed),  # the step alone
        make_arguments([[7, 8]] * 3, [44, 300, 65_580], 9, seed),  # of which some are equal in eight or sixteen bits
        make_arguments([[7, 8]] * 3, [3, 3 + 2**20, 3 + 2**31], 9, seed),  # or in twenty, or in all but the highest
        make_arguments([[7, 8], [8, 7], [7, 9]], [3] * 3, 6, seed),  # either half of the key
        make_arguments([[2**32 - 1, 2**32 - 2]], [0], 5, 2**64 - 1),  # the largest halves
        make_arguments([[7, 8]], [3], 7, 5),
        make_arguments([[7, 8]], [3], 7, 5 + 2**32),  # either half of the seed
    ]
    rng = np.random.default_rng(0)
    for R, V in [(2, 31), (2, 129), (1, 600)]:  # past warps, blocks and groups of four
        cases.append(make_arguments(rng.integers(2**32, size=(R, 2)), rng.integers(9, size=R), V, 9))
    return cases


def large_cases() -> list[tuple]:
    """More tokens, and more groups of four, than sixteen bits count: noise must not come again; many rows."""
    rng = np.random.default_rng(1)
    cases = [make_arguments([[7, 8]], [3], V, 2**63 + 5) for V in (VOCABULARY, WIDE, 2**18 + 9)]
    for R, V in [(ROWS, WIDTH), SEVERAL_WIDE, (MANY_ROWS, 1)]:
        cases.append(make_arguments(rng.integers(2**32, size=(R, 2)), rng.integers(9, size=R), V, 5))
    return cases


def count_generated_numbers(key_RX, step_R, V, seed) -> int:
    """What the work goes by: the arguments are small."""
    return len(key_RX) * V


def oracle(key_RX, step_R, V, seed):
    """-log(-log(u)) in 30 digits: u is the midpoint of the interval that a random word stands for. 0 elsewhere."""
    noise_RV = np.zeros((len(key_RX), V))
    keys, steps = key_RX.tolist(), step_R.tolist()
    for r, v in itertools.product(positions_to_check(len(keys)), positions_to_check(V)):
        noise_RV[r, v] = _gumbel_noise_of_word(philox_word(v, steps[r], keys[r], seed))
    return noise_RV


def positions_to_check(count: int) -> list[int]:
    """All of a few rows or columns; of many, a thousand or so, with the first and the last."""
    return list(range(count)) if count < 2000 else [*range(0, count - 16, count // 1000), *range(count - 16, count)]


def replace_undefined_results(mine_RV, right_RV, key_RX, step_R, V, seed):
    """The result; of many rows or columns, those that are not judged count as right: 30 digits take their time."""
    result_RV, seen = right_RV.copy(), np.ix_(positions_to_check(len(key_RX)), positions_to_check(V))
    result_RV[seen] = mine_RV[seen]
    return result_RV


def _gumbel_noise_of_word(word: int) -> float:
    with localcontext(prec=30):
        return float(-(-(Decimal(2 * word + 1) / 2**33).ln()).ln())


def error_bound(key_RX, step_R, V, seed):
    """u is exact. Each logarithm may be off by its last bit, and the outer one sees the error of the inner, relative
    to it, as its own.
    """
    return 2 * EPS * (1 + np.abs(oracle(key_RX, step_R, V, seed)))


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 8 sentences of 4 beams."""
    keys = np.random.default_rng(seed).integers(2**32, size=(8, 2))
    return make_arguments(keys, [7] * 8, 4 * 50257, 5), "8 sentences of 4 beams, V = 50,257"
