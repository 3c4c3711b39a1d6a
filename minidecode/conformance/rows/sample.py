"""A token drawn from each row's scores: inputs that find mistakes, and what is right."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from ..sizes import MANY_ROWS, ROWS, SEVERAL_WIDE, VOCABULARY, WIDE, WIDTH

INF, NAN = np.inf, np.nan


def make_arguments(rows: list, keys: list, steps: list, seed: int) -> tuple:
    """(scores_RV, key_RX, step_R, seed)"""
    return np.array(rows, np.float32), np.array(keys, np.uint32), np.array(steps), seed


@st.composite
def draw_inputs(draw):
    """Scores that leave the choice to the noise; now and then one token alone is possible, or none."""
    R, V = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    score = st.sampled_from([0.0, -1.0, 2.0, 0.25, -INF])
    rows = [draw(st.lists(score, min_size=V, max_size=V)) for _ in range(R)]
    word = st.integers(0, 2**32 - 1)
    keys = [[draw(word), draw(word)] for _ in range(R)]
    return make_arguments(rows, keys, [draw(st.integers(0, 40)) for _ in range(R)], draw(st.integers(0, 2**64 - 1)))


def planted_cases() -> list[tuple]:
    rng = np.random.default_rng(0)

    def make_random_arguments(rows: list, **others) -> tuple:
        R = len(rows)
        usual = {"keys": rng.integers(2**32, size=(R, 2)), "steps": rng.integers(9, size=R), "seed": 2**63 + 5}
        return make_arguments(rows, **usual | others)

    even = [[0.0] * 23] * 3
    cases = [
        make_random_arguments([[0.0]]),
        make_random_arguments(even),  # rows, keys and steps differ, scores do not
        make_random_arguments(even, keys=[[7, 8]] * 3, steps=[3, 4, 5]),  # the step alone
        make_random_arguments(
            even, keys=[[7, 8]] * 3, steps=[44, 300, 65_580]
        ),  # of which some are equal in eight or sixteen bits
        make_random_arguments(
            even, keys=[[7, 8]] * 3, steps=[3, 3 + 2**20, 3 + 2**31]
        ),  # or in twenty, or in all but the highest
        make_random_arguments(even, keys=[[7, 8], [8, 7], [7, 9]], steps=[3] * 3),  # either half of the key
        make_random_arguments(even, seed=5),
        make_random_arguments(even, seed=5 + 2**32),  # either half of the seed
        make_random_arguments([[-INF] * 5, [-INF, -INF, 3, -INF, -INF], [-INF, 1, -INF, -INF, 1]]),
        make_random_arguments([[1000.0, 999.0, 998.0, 1000.0, 999.5], [-1e30, -2e30, -1e30, -1e30, -1e30]]),
        make_random_arguments([[0.0, -3.0, -6.0, -9.0, -12.0, -15.0] * 4] * 2),
        make_random_arguments(
            [[NAN] * 7, [1, 0, 2, 1, 0, 1, 2], [NAN, 1, 0, -INF, 2, 1, 0]]
        ),  # mean nothing, but do no harm
        make_random_arguments([[1, 0, 2, 1, 0, 1, 2], [0, 1, 0, -INF, 2, INF, 0], [-INF, NAN] + [-INF] * 5]),
    ]
    for V in (31, 129, 600):  # past warps, blocks and groups of four
        cases.append(make_random_arguments(2 * rng.standard_normal((2, V))))
    long_RV = 2 * rng.standard_normal((1, 2060))  # two slices
    long_RV[0, :2050] -= 40
    cases.append(make_random_arguments(long_RV))
    _, keys, steps, seed = case = make_random_arguments(
        np.zeros((2, 200))
    )  # sums that differ by less than float32 can say
    close_RV = [[-_gumbel_noise(v, steps[r], keys[r], seed) for v in range(200)] for r in range(2)]
    cases.append((np.array(close_RV, np.float32), *case[1:]))
    return [*cases, _make_case_of_rarest_draw()]


def _make_case_of_rarest_draw() -> tuple:
    """A token that is drawn though its score is 24.7 below the best, near the most that noise makes up for.

    Its random word is the largest that there is, 2**32 - 1: of this key and seed the first such step. The other token
    has the smallest noise of 2,000.
    """
    rare, (key, step, seed) = 12, ((7, 8), 110_258_218, 5)
    best = min(range(2000), key=lambda v: _gumbel_noise(v, step, key, seed))
    scores_RV = np.full((1, 2000), -INF)
    scores_RV[0, best], scores_RV[0, rare] = (
        0.0,
        _gumbel_noise(best, step, key, seed) - _gumbel_noise(rare, step, key, seed) + 1e-3,
    )
    return make_arguments(scores_RV, [key], [step], seed)


def large_cases() -> list[tuple]:
    """More tokens, and more groups of four, than sixteen bits count: of which only the last are possible; many rows."""
    rng, cases = np.random.default_rng(1), []
    for V in (VOCABULARY, WIDE, 2**18 + 60):
        scores_RV = np.full((1, V), -INF)
        scores_RV[0, -57:] = 0.0
        cases.append(make_arguments(scores_RV, [[7, 8]], [3], 2**63 + 5))
    for R, V in [(ROWS, WIDTH), SEVERAL_WIDE, (MANY_ROWS, 2)]:
        keys, steps = rng.integers(2**32, size=(R, 2)), rng.integers(9, size=R)
        scores_RV = rng.standard_normal((R, V))
        scores_RV[-1, :-1] = -INF  # of the last row the last token alone is possible
        cases.append(make_arguments(scores_RV, keys, steps, 2**63 + 5))
    return cases


def oracle(scores_RV, key_RX, step_R, seed):
    """The largest sum, token by token; the first of equal ones."""
    token_R = np.zeros(len(scores_RV), np.int64)
    for r, row in enumerate(scores_RV.tolist()):
        sums = [
            score + _gumbel_noise(v, step_R[r], key_RX[r], seed) if score > -INF else -INF
            for v, score in enumerate(row)
        ]
        token_R[r] = sums.index(max(sums))
    return token_R


def replace_undefined_results(mine_R, right_R, scores_RV, key_RX, step_R, seed):
    """The tokens; in a row that holds NaN or plus infinity, any token that there is counts as right."""
    is_free_R = ~(scores_RV < INF).all(axis=1) & (mine_R >= 0) & (mine_R < scores_RV.shape[1])
    return np.where(is_free_R, right_R, mine_R)


def _gumbel_noise(v: int, step, key, seed: int) -> float:
    """Gumbel noise."""
    return -math.log(-math.log((philox_word(v, step, key, seed) + 0.5) / 2**32))


def philox_word(v: int, step, key, seed: int) -> int:
    """Word v % 4 of the block v // 4, by Philox4x32-10 (Salmon et al. 2011) in whole numbers."""
    c0, c1, c2, c3 = v // 4, int(step), int(key[0]), int(key[1])
    k0, k1 = seed % 2**32, seed >> 32
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return (c0, c1, c2, c3)[v % 4]


def make_paper_inputs(*, seed: int = 0) -> tuple[tuple, str]:
    """A step of GPT-2 for 32 texts, of which top_k=50 has left 50 tokens each."""
    rng = np.random.default_rng(seed)
    R, V, k = 32, 50257, 50
    scores_RV = 3 * rng.standard_normal((R, V)).astype(np.float32)
    scores_RV[scores_RV < np.sort(scores_RV, axis=1)[:, V - k, None]] = -INF
    shape = f"{R} rows, V = {V:,}, of which {k} tokens are possible"
    return (scores_RV, rng.integers(2**32, size=(R, 2)), np.full(R, 7), 5), shape
