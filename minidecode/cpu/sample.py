"""A token drawn from each row's scores, compiled for the CPU."""

from __future__ import annotations

import math

import numpy as np
from numba import uint64

from ..reference.random import HALF, LOW, MULTIPLIERS, WEYL, noise_of_words
from .common.jit import njit

MULTIPLIER_0, MULTIPLIER_1 = MULTIPLIERS
WEYL_0, WEYL_1 = map(np.uint64, WEYL)
SPACING = 2.0**-32  # of random words as numbers between 0 and 1
MOST_NOISE_X = noise_of_words(2.0**24 * np.arange(1, 257) - 1) + 1e-9  # of all words with the same eight bits in front
MOST_NOISE = MOST_NOISE_X[-1]
TOP_BITS = np.uint64(24)


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    """One pass that keeps the best sum so far: a token that no noise would lift above it gets no random word.

    And one that its word's first bits cannot lift so far, which a table says, gets no logarithms: hardly any does.
    """
    token_R = np.empty(len(scores_RV), np.int64) if out is None else out
    halves = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    _sample_tokens(scores_RV, key_RX.astype(np.uint64), step_R.astype(np.uint64), *halves, token_R)
    return token_R


@njit(cache=True)
def _sample_tokens(scores_RV, key_RX, step_R, seed_0, seed_1, token_R):
    for r in range(len(scores_RV)):
        best, token_R[r] = -np.inf, 0
        for first in range(0, scores_RV.shape[1], 4):
            end = min(first + 4, scores_RV.shape[1])
            if not _can_win(scores_RV, r, first, end, best):
                continue
            words = _philox(uint64(first // 4), step_R[r], key_RX[r, 0], key_RX[r, 1], seed_0, seed_1)
            for v in range(first, end):
                word, score = words[v - first], np.float64(scores_RV[r, v])
                if score + MOST_NOISE_X[word >> TOP_BITS] > best:
                    total = score - math.log(-math.log((word + 0.5) * SPACING))
                    if total > best:
                        best, token_R[r] = total, v


@njit(cache=True)
def _can_win(scores_RV, r, first, end, best):
    """Whether the largest noise would lift one of these tokens above `best`; of impossible ones, none."""
    can_win = False
    for v in range(first, end):
        can_win |= scores_RV[r, v] + MOST_NOISE > best
    return can_win


@njit(cache=True)
def _philox(c0, c1, c2, c3, k0, k1):
    """Philox4x32-10, as in reference/random.py, of one counter."""
    for _ in range(10):
        product_0, product_1 = MULTIPLIER_0 * c0, MULTIPLIER_1 * c2
        c0, c1 = (product_1 >> HALF) ^ c1 ^ k0, product_1 & LOW
        c2, c3 = (product_0 >> HALF) ^ c3 ^ k1, product_0 & LOW
        k0, k1 = (k0 + WEYL_0) & LOW, (k1 + WEYL_1) & LOW
    return c0, c1, c2, c3
