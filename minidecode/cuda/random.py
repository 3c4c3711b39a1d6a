"""Random numbers by counter (Philox), as the Gumbel noise that a beam's samples are drawn with.

1. A thread per token: each computes four words, and takes one.
2. A thread per four neighbouring tokens, which share their words: a quarter of the products of 64 bits.

Floor: 8RV bytes written, at 2.4 TB/s; a launch in a graph, 1.1 us. Predicted 3 us for one row of 50,257 tokens and
10 us for 32: 150 operations a token in float64 at 34 TFLOP/s are 7 us of it. Not measured.

Logarithms are in float64, as in NumPy; the array of noise says that double precision is meant.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float64

from ..device.launch import launch
from .common.philox import COUNTERS, as_philox_counters, noise_of_word, random_words_of, write_noise
from .common.reduction import THREADS


def gumbel_v1(key_RX, step_R, V, seed, out=None):
    """Gumbel noise for V tokens of each row, a thread per token.

    Launches `write_noise_one_by_one` as (R, ceil(V / 128)) blocks of 128. Reads 40 bytes of keys, step and seed a
    thread, and writes 8RV.
    """
    return launch_noise_kernel(write_noise_one_by_one, THREADS, key_RX, step_R, V, seed, out)


def launch_noise_kernel(kernel, tokens, key_RX, step_R, V, seed, out):
    """Blocks that take this many tokens of a row each. Only a grid's first axis has room for more than 65,535 rows."""
    noise_RV = np.empty_like(key_RX, np.float64, shape=(len(key_RX), V)) if out is None else out
    launch(kernel, (len(key_RX), -(-V // tokens)), THREADS, *as_philox_counters(key_RX, step_R, seed), noise_RV)
    return noise_RV


@cuda.jit
def write_noise_one_by_one(key_RX, step_R, seed_X, noise_RV):
    """The noise of one token, from one of four words.

    Grid (R, ceil(V / 128)), block 128. A thread reads 40 bytes and writes 8.
    """
    r, v = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if v < noise_RV.shape[1]:
        words = random_words_of(v // 4, key_RX, step_R, seed_X, r)
        noise_RV[r, v] = noise_of_word(words[v % 4])


def gumbel(key_RX, step_R, V, seed, out=None):
    """Gumbel noise for V tokens of each row, a thread per four neighbouring tokens.

    Version 2: `write_noise` as (R, ceil(V / 512)) blocks of 128. Reads 40 bytes of keys, step and seed a thread, and
    writes 8RV.
    """
    return launch_noise_kernel(write_noise, 4 * THREADS, key_RX, step_R, V, seed, out)


SIGNATURES = {write_noise_one_by_one: [(*COUNTERS, float64[:, ::1])]}  # as it is compiled and type-checked
