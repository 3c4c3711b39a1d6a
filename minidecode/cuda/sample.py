"""A token drawn from each row: the largest of scores + Gumbel noise, whose random words come by counter (Philox).

Every version draws what NumPy draws, for sums that decide are in float64, as there. (Where no array of the caller is of
float64, the arrays of best sums say that double precision is meant.)

1. Two kernels: noise is written for the whole vocabulary, a thread per four tokens, and a block per row looks for the
   largest sum.
2. No noise is written. A block per slice of a row keeps its best sum, and a second kernel takes the best of all slices.
   Where the largest noise there is would not lift a token above what its thread has found, it gets none: of a row that
   top_k=50 has been through, all but 50 tokens.
3. Logarithms in float32 first, which GPUs compute many times faster. Their error is known, so only sums within it of
   the slice's best are computed again in float64: hardly ever more than one.

Floor of version 3: 4RV bytes at 2.4 TB/s, and two launches, 2.1 us. Predicted 12 us for one row of 50,257 scores: a
thread reads its 16 scores one behind the other, 0.5 us each, and the best of 25 slices take a launch more. Not
measured.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int64

from ..device.launch import launch
from ..reference import scratch
from .common.arrays import require_float32
from .common.philox import COUNTERS, LOW, as_philox_counters, noise_of_word, random_words_of, write_noise
from .common.ranking import first_of_block
from .common.reduction import THREADS, WARPS, block_max
from .common.rows import INFINITY, NOWHERE

SLICE = 512  # groups of four tokens that a block looks at
MOST_NOISE = 22.9  # noise is at most 33 log 2
MIDDLE = np.uint64(2**31)
ROUGH_SPACING, ROUGH_HALF = float32(2.0**-32), float32(0.5)
ERROR = float32(2.0**-20)  # of a sum in float32, for each unit of it and of 32: twice what can be, and more


def sample_tokens_v1(scores_RV, key_RX, step_R, seed, out=None):
    """Draws a token from each row: noise is written for the whole vocabulary, then the largest sum found.

    Launches `write_noise` as (R, ceil(V / 512)) blocks and `choose_largest_sum` in R, of 128. Writes 8RV bytes of
    noise, reads them and 4RV of scores, and writes 8R.
    """
    (R, V), token_R = scores_RV.shape, _make_token_array(scores_RV, out)
    noise_RV = np.empty_like(scores_RV, dtype=np.float64)
    launch(write_noise, (R, -(-V // (4 * THREADS))), THREADS, *as_philox_counters(key_RX, step_R, seed), noise_RV)
    launch(choose_largest_sum, R, THREADS, scores_RV, noise_RV, token_R)
    return token_R


@cuda.jit
def choose_largest_sum(scores_RV, noise_RV, token_R):
    """The token with the largest sum of score and noise of a row.

    Grid R, block 128. Reads 12V bytes a row and writes 8.
    """
    part = cuda.shared.array(WARPS, float64)
    place = cuda.shared.array(WARPS, int64)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    best, column = float64(-INFINITY), NOWHERE
    for v in range(t, scores_RV.shape[1], THREADS):
        total = noise_RV[r, v] + float64(scores_RV[r, v])
        if total > best:
            best, column = total, v
    best, column = first_of_block(best, column, part, place)
    if t == 0:
        token_R[r] = column if column != NOWHERE else 0


def sample_tokens_v2(scores_RV, key_RX, step_R, seed, out=None):
    """Draws a token from each row, with noise in registers for the tokens alone that can still win.

    Launches `draw_from_slice` as (R, ceil(V / 2048)) blocks and `best_of_slices` in R, of 128. Reads 4RV bytes, and 40
    and the scores again for four tokens that can win; 16 bytes a slice; writes 8R.
    """
    return _draw_by_slices(draw_from_slice, scores_RV, key_RX, step_R, seed, out)


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None, *, workspace=None):
    """Draws a token from each row, with logarithms in float32 first and in float64 where these do not decide.

    Version 3: `draw_from_slice_roughly` as (R, ceil(V / 2048)) blocks and `best_of_slices` in R, of 128. Reads 4RV
    bytes, and 40 and the scores again for four tokens that can win; 16 bytes a slice; writes 8R.
    """
    return _draw_by_slices(draw_from_slice_roughly, scores_RV, key_RX, step_R, seed, out, workspace)


def _draw_by_slices(kernel, scores_RV, key_RX, step_R, seed, out, workspace=None):
    (R, V), token_R = scores_RV.shape, _make_token_array(scores_RV, out)
    slices = -(-V // (4 * SLICE))
    best_RX, column_RX = (scratch(workspace, (R, slices), scores_RV, dtype) for dtype in (np.float64, np.int64))
    launch(kernel, (R, slices), THREADS, scores_RV, *as_philox_counters(key_RX, step_R, seed), best_RX, column_RX)
    launch(best_of_slices, R, THREADS, best_RX, column_RX, token_R)
    return token_R


@cuda.jit
def draw_from_slice(scores_RV, key_RX, step_R, seed_X, best_RX, column_RX):
    """The largest sum of score and noise in 2,048 tokens of a row, with its token.

    Grid (R, ceil(V / 2048)), block 128. Reads 4 bytes a token, 56 more for four that can win, and writes 16.
    """
    part = cuda.shared.array(WARPS, float64)
    place = cuda.shared.array(WARPS, int64)
    r, s, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    best, column = float64(-INFINITY), NOWHERE
    for group in range(s * SLICE + t, (s + 1) * SLICE, THREADS):
        if can_win(scores_RV, r, group, best):
            words = random_words_of(group, key_RX, step_R, seed_X, r)
            for i in range(4):
                v = 4 * group + i
                if v < scores_RV.shape[1]:
                    total = noise_of_word(words[i]) + float64(scores_RV[r, v])
                    if total > best:
                        best, column = total, v
    best, column = first_of_block(best, column, part, place)
    if t == 0:
        best_RX[r, s], column_RX[r, s] = best, column


@cuda.jit(device=True)
def can_win(scores_RV, r, group, best):
    """Whether the largest noise would lift one of four tokens to `best`; of impossible ones, none."""
    for v in range(4 * group, min(4 * group + 4, scores_RV.shape[1])):
        if scores_RV[r, v] > -INFINITY and scores_RV[r, v] + MOST_NOISE >= best:
            return True
    return False


@cuda.jit
def best_of_slices(best_RX, column_RX, token_R):
    """The token of the largest sum of all slices of a row.

    Grid R, block 128. Reads 16 bytes a slice and writes 8.
    """
    part = cuda.shared.array(WARPS, float64)
    place = cuda.shared.array(WARPS, int64)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    best, column = float64(-INFINITY), NOWHERE
    for s in range(t, best_RX.shape[1], THREADS):
        if best_RX[r, s] > best:
            best, column = best_RX[r, s], column_RX[r, s]
    best, column = first_of_block(best, column, part, place)
    if t == 0:
        token_R[r] = column if column != NOWHERE else 0


@cuda.jit
def draw_from_slice_roughly(scores_RV, key_RX, step_R, seed_X, best_RX, column_RX):
    """The largest sum of score and noise in 2,048 tokens of a row: by float32, then within its error by float64.

    Grid (R, ceil(V / 2048)), block 128. Reads 4 bytes a token, 56 more for four that can win, and writes 16.
    """
    largest_of = cuda.shared.array(WARPS, float32)
    part = cuda.shared.array(WARPS, float64)
    place = cuda.shared.array(WARPS, int64)
    r, s, t = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x
    mine = -INFINITY
    for group in range(s * SLICE + t, (s + 1) * SLICE, THREADS):
        if can_win(scores_RV, r, group, mine):
            words = random_words_of(group, key_RX, step_R, seed_X, r)
            for i in range(4):
                if 4 * group + i < scores_RV.shape[1]:
                    mine = max(mine, scores_RV[r, 4 * group + i] + rough_noise_of(words[i]))
    rough = block_max(mine, largest_of)
    edge = rough - ERROR * (abs(rough) + float32(32))

    best, column = float64(-INFINITY), NOWHERE
    if mine >= edge:  # of 128 threads, hardly ever more than one
        for group in range(s * SLICE + t, (s + 1) * SLICE, THREADS):
            if can_win(scores_RV, r, group, edge):
                words = random_words_of(group, key_RX, step_R, seed_X, r)
                for i in range(4):
                    v = 4 * group + i
                    if v < scores_RV.shape[1] and scores_RV[r, v] + rough_noise_of(words[i]) >= edge:
                        total = noise_of_word(words[i]) + float64(scores_RV[r, v])
                        if total > best:
                            best, column = total, v
    best, column = first_of_block(best, column, part, place)
    if t == 0:
        best_RX[r, s], column_RX[r, s] = best, column


@cuda.jit(device=True)
def rough_noise_of(word):
    """In float32, to about 2e-6. Numbers next to 1 differ by what they lack of it."""
    if word < MIDDLE:
        return -math.log(-math.log((float32(word) + ROUGH_HALF) * ROUGH_SPACING))
    return -math.log(-math.log1p(-(float32(LOW - word) + ROUGH_HALF) * ROUGH_SPACING))


def _make_token_array(scores_RV, out):
    """The array for the tokens, on the scores' device."""
    return np.empty_like(require_float32(scores_RV), shape=len(scores_RV), dtype=np.int64) if out is None else out


# What each kernel is compiled and type-checked for, without a GPU.
_SCORES, _SUMS, _TOKENS = float32[:, ::1], float64[:, ::1], int64[::1]
SIGNATURES = {
    choose_largest_sum: [(_SCORES, _SUMS, _TOKENS)],
    draw_from_slice: [(_SCORES, *COUNTERS, _SUMS, int64[:, ::1])],
    draw_from_slice_roughly: [(_SCORES, *COUNTERS, _SUMS, int64[:, ::1])],
    best_of_slices: [(_SUMS, int64[:, ::1], _TOKENS)],
}
# 64-bit products, and exponentials or logarithms in float64: a T4's SM holds 1,024 threads, of 64 registers.
REGISTERS = {draw_from_slice: 64, draw_from_slice_roughly: 64}
