"""Random words by counter (Philox) and the Gumbel noise made of them: kernels of random.py and sample.py."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float64, uint64

from .reduction import THREADS

MULTIPLIER_0, MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL_0, WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
SPACING = 2.0**-32  # of random words as numbers between 0 and 1


def as_philox_counters(key_RX, step_R, seed):
    """Keys, steps and the two halves of the seed, as numbers of 64 bits: a product of two words needs as many."""
    key_RX, step_R = key_RX.astype(np.uint64), step_R.astype(np.uint64)
    seed_X = np.empty_like(step_R, shape=2)
    seed_X[0], seed_X[1] = seed & 0xFFFFFFFF, seed >> 32
    return key_RX, step_R, seed_X


@cuda.jit
def write_noise(key_RX, step_R, seed_X, noise_RV):
    """The noise of four neighbouring tokens, from four words.

    Grid (R, ceil(V / 512)), block 128. A thread reads 40 bytes and writes 32.
    """
    r, group = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if 4 * group < noise_RV.shape[1]:
        words = random_words_of(group, key_RX, step_R, seed_X, r)
        for i in range(4):
            if 4 * group + i < noise_RV.shape[1]:
                noise_RV[r, 4 * group + i] = noise_of_word(words[i])


@cuda.jit(device=True)
def random_words_of(group, key_RX, step_R, seed_X, r):
    """The random words of four neighbouring tokens: Philox4x32-10, as in reference/random.py."""
    c0, c1, c2, c3 = uint64(group), step_R[r], key_RX[r, 0], key_RX[r, 1]
    k0, k1 = seed_X[0], seed_X[1]
    for _ in range(10):
        product_0, product_1 = MULTIPLIER_0 * c0, MULTIPLIER_1 * c2
        c0, c1 = (product_1 >> HALF) ^ c1 ^ k0, product_1 & LOW
        c2, c3 = (product_0 >> HALF) ^ c3 ^ k1, product_0 & LOW
        k0, k1 = (k0 + WEYL_0) & LOW, (k1 + WEYL_1) & LOW
    return c0, c1, c2, c3


@cuda.jit(device=True)
def noise_of_word(word):
    """-log(-log(u)) for u in the middle of the 2**-32 that a word stands for."""
    return -math.log(-math.log((float64(word) + 0.5) * SPACING))


# What each kernel is compiled and type-checked for, without a GPU.
COUNTERS = (uint64[:, ::1], uint64[::1], uint64[::1])
SIGNATURES = {write_noise: [(*COUNTERS, float64[:, ::1])]}
