"""Log-probabilities of all tokens of a row, or of one.

1. A block per row, in three passes: the largest logit, the sum of exponentials, the scores.
2. Two passes: each thread scales its sum anew when its largest logit grows, as in hars.py, so that the first pass finds
   both. The second comes from the cache, where the row fits into it.
3. Rows of any width by 128-bit loads, sixteen numbers on their way to each thread. Floor: R*V*8 bytes over the copy's
   bandwidth. Versions 1 and 2 kept one load of four bytes on its way and tested each number: 30 and 33 % of a copy on
   1 GB (H100, 2026-11-26). Many rows: one block of up to 1,024 threads has an SM for itself, whose L1 holds the row
   (201 KB) for the second pass, which begins where the first one ended. Few rows: blocks share a row, once to add up
   and once to write. Predicted 80 % on 1 GB and 3, 4 and 7 us at 4, 32 and 128 rows in a graph; measured (H100,
   2026-11-26) 100 % and 4.8, 8.3 and 23.3 us: two kernels take 3.8 us, and 128 rows with their scores are more than the
   L2 cache holds. Version 2 took 160.0, 162.8 and 302.3 us.

What exp(logit - largest) sums to is positive and finite wherever a row has probabilities: log_of says NaN for every
other row, and what NaN is taken from is NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..ops import FINE, NOT_A_NUMBER
from ..reference import scratch
from ..reference.softmax import result_arrays
from .common.arrays import require_float32
from .common.log_sum import add_compensated, log_of_sum, max_and_sum_with_next, rescale_sum
from .common.reduction import THREADS, WARPS, block_max, block_sum
from .common.rows import (
    INFINITY,
    MOST_WARPS,
    bounds_of_share,
    load_four,
    load_four_from,
    max_and_sum_of_block,
    max_and_sum_of_row,
    max_and_sum_of_share,
    numbers_before_alignment,
    split_into_shares,
    threads_for_row,
    unaligned_column_of,
)
from .common.vector_load import wide_store

MANY_ROWS = 96  # from this many on, a block has a row for itself


def log_softmax_v1(logits_RV, out=None):
    """scores_RV = log softmax of logits_RV, in three passes by a block per row.

    Launches `scores_in_three_passes` in R blocks of 128. Reads 12RV bytes and writes 4RV + 8R.
    """
    return launch_block_per_row(scores_in_three_passes, logits_RV, out)


def launch_block_per_row(kernel, logits_RV, out):
    """The results of a kernel that has a block of 128 for each row."""
    out = result_arrays(require_float32(logits_RV), out)
    launch(kernel, len(logits_RV), THREADS, logits_RV, *out)
    return out


@cuda.jit
def scores_in_three_passes(logits_RV, scores_RV, trouble_R):
    """A row's maximum, then its sum of exponentials, then its scores.

    Grid R, block 128. Reads 12V bytes a row and writes 4V + 8.
    """
    part = cuda.shared.array(WARPS, float32)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, logits_RV.shape[1]
    largest = -INFINITY
    for v in range(t, V, THREADS):
        if logits_RV[r, v] > largest:
            largest = logits_RV[r, v]
    largest = block_max(largest, part)
    total = lost = float32(0)
    for v in range(t, V, THREADS):
        total, lost = add_compensated(total, lost, math.exp(logits_RV[r, v] - largest))
    write_row_scores(r, logits_RV, largest, block_sum(total, part), scores_RV, trouble_R)


@cuda.jit(device=True)
def write_row_scores(r, logits_RV, largest, total, scores_RV, trouble_R):
    """The row's results, by the whole block."""
    log_sum, t = log_of_sum(total, largest), cuda.threadIdx.x
    for v in range(t, logits_RV.shape[1], THREADS):
        scores_RV[r, v] = logits_RV[r, v] - largest - log_sum
    if t == 0:
        trouble_R[r] = FINE if log_sum == log_sum else NOT_A_NUMBER


def log_softmax_v2(logits_RV, out=None):
    """scores_RV = log softmax of logits_RV, in two passes by a block per row.

    Launches `scores_in_two_passes` in R blocks of 128. Reads 8RV bytes and writes 4RV + 8R.
    """
    return launch_block_per_row(scores_in_two_passes, logits_RV, out)


@cuda.jit
def scores_in_two_passes(logits_RV, scores_RV, trouble_R):
    """A row's maximum and sum of exponentials, then its scores.

    Grid R, block 128. Reads 8V bytes a row and writes 4V + 8.
    """
    part = cuda.shared.array(WARPS, float32)
    r = cuda.blockIdx.x
    largest, total = largest_and_sum(r, logits_RV, part)
    write_row_scores(r, logits_RV, largest, total, scores_RV, trouble_R)


@cuda.jit(device=True)
def largest_and_sum(r, logits_RV, part):
    """The row's largest logit and the sum of exp(logit - largest), in one pass, for every thread of the block."""
    mine, total, lost = -INFINITY, float32(0), float32(0)
    for v in range(cuda.threadIdx.x, logits_RV.shape[1], THREADS):
        mine, total, lost = max_and_sum_with_next(mine, total, lost, logits_RV[r, v])
    largest = block_max(mine, part)
    return largest, block_sum(rescale_sum(total, mine, largest), part)


def log_softmax(logits_RV, out=None, *, workspace=None):
    """scores_RV = log softmax of logits_RV, by 128-bit loads; many rows have a block each, few rows several.

    Version 3: `scores_of_rows` in R blocks of up to 1,024, or `add_up_shares` and `write_shares` as (R, shares) blocks
    of 128. Reads 8RV bytes and writes 4RV + 8R.
    """
    (R, V), out = logits_RV.shape, result_arrays(require_float32(logits_RV), out)
    shares, columns = split_into_shares(R, V)
    if R >= MANY_ROWS or shares == 1:
        launch(scores_of_rows, R, threads_for_row(V), logits_RV, *out)
        return out
    parts = [scratch(workspace, (R, shares), logits_RV) for _ in range(2)]
    launch(add_up_shares, (R, shares), THREADS, logits_RV, columns, *parts)
    launch(write_shares, (R, shares), THREADS, logits_RV, columns, *parts, *out)
    return out


@cuda.jit(launch_bounds=1024)
def scores_of_rows(logits_RV, scores_RV, trouble_R):
    """The scores of a row by one block; the second pass begins where the first one ended.

    Grid R, block up to 1,024. Reads 8V bytes a row, half of them from the L1 cache if it holds the row; writes 4V + 8.
    """
    largest_X = cuda.shared.array(MOST_WARPS, float32)
    total_X = cuda.shared.array(MOST_WARPS, float32)
    r = cuda.blockIdx.x
    begin, first, last, end = bounds_of_share(logits_RV[r], logits_RV.shape[1])
    largest, total = max_and_sum_of_share(logits_RV[r], begin, first, last, end)
    largest, total = max_and_sum_of_block(largest, total, largest_X, total_X)
    log_sum = log_of_sum(total, largest)
    write_share(logits_RV[r], begin, first, last, end, largest, log_sum, scores_RV[r])
    note_trouble(r, log_sum, trouble_R)


@cuda.jit
def add_up_shares(logits_RV, columns, largest_RX, total_RX):
    """Maximum and sum of exponentials of a block's share of a row.

    Grid (R, shares), block 128. Reads 4 bytes a column of the share and writes 8.
    """
    largest_X = cuda.shared.array(WARPS, float32)
    total_X = cuda.shared.array(WARPS, float32)
    r, share = cuda.blockIdx.x, cuda.blockIdx.y
    begin, first, last, end = bounds_of_share(logits_RV[r], columns)
    largest, total = max_and_sum_of_share(logits_RV[r], begin, first, last, end)
    largest, total = max_and_sum_of_block(largest, total, largest_X, total_X)
    if cuda.threadIdx.x == 0:
        largest_RX[r, share], total_RX[r, share] = largest, total


@cuda.jit
def write_shares(logits_RV, columns, largest_RX, total_RX, scores_RV, trouble_R):
    """The scores of a block's share; each warp joins the shares' sums for itself, and so needs no barrier.

    Grid (R, shares), block 128. Reads 4 bytes a column of the share and 8 a share of the row for each warp; writes 4 a
    column.
    """
    r = cuda.blockIdx.x
    begin, first, last, end = bounds_of_share(logits_RV[r], columns)
    largest, total = max_and_sum_of_row(r, largest_RX, total_RX)
    log_sum = log_of_sum(total, largest)
    write_share(logits_RV[r], begin, first, last, end, largest, log_sum, scores_RV[r])
    if cuda.blockIdx.y == 0:
        note_trouble(r, log_sum, trouble_R)


@cuda.jit(device=True)
def write_share(logits_V, begin, first, last, end, largest, log_sum, scores_V):
    """The scores of a block's share, from its end on: what the cache has seen last it still has."""
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    is_wide = numbers_before_alignment(logits_V) == numbers_before_alignment(scores_V)
    v = last - 4 - 4 * t
    while v >= first:
        u, w, x = v - 4 * T, v - 8 * T, v - 12 * T
        a, b = load_four(logits_V, v), load_four_from(logits_V, u, first)
        c, d = load_four_from(logits_V, w, first), load_four_from(logits_V, x, first)
        store_four_scores(scores_V, v, a, largest, log_sum, is_wide)
        if u >= first:
            store_four_scores(scores_V, u, b, largest, log_sum, is_wide)
        if w >= first:
            store_four_scores(scores_V, w, c, largest, log_sum, is_wide)
        if x >= first:
            store_four_scores(scores_V, x, d, largest, log_sum, is_wide)
        v -= 16 * T
    column = unaligned_column_of(t, begin, first, last, end)
    if column < end:
        scores_V[column] = logits_V[column] - largest - log_sum


@cuda.jit(device=True)
def store_four_scores(scores_V, v, four, largest, log_sum, is_wide):
    """Four scores, by one store where logits and scores lie alike."""
    a, b, c, d = four
    a, b, c, d = a - largest - log_sum, b - largest - log_sum, c - largest - log_sum, d - largest - log_sum
    if is_wide:
        wide_store(scores_V, v, a, b, c, d)
    else:
        scores_V[v], scores_V[v + 1], scores_V[v + 2], scores_V[v + 3] = a, b, c, d


@cuda.jit(device=True)
def note_trouble(r, log_sum, trouble_R):
    """Notes whether a row has no probabilities, by one thread."""
    if cuda.threadIdx.x == 0:
        trouble_R[r] = FINE if log_sum == log_sum else NOT_A_NUMBER


def token_logprobs(logits_RV, token_R, out=None):
    """The log-probability of one token of each row, in one pass that writes one number a row.

    Launches `score_of_token` in R blocks of up to 1,024. Reads 4RV bytes and writes 4R.
    """
    score_R = np.empty_like(require_float32(logits_RV), shape=len(logits_RV)) if out is None else out
    launch(score_of_token, len(logits_RV), threads_for_row(logits_RV.shape[1]), logits_RV, token_R, score_R)
    return score_R


@cuda.jit(launch_bounds=1024)
def score_of_token(logits_RV, token_R, score_R):
    """A row's maximum and sum of exponentials, and the log-probability of its token.

    Grid R, block up to 1,024. Reads 4V + 12 bytes a row and writes 4.
    """
    largest_X = cuda.shared.array(MOST_WARPS, float32)
    total_X = cuda.shared.array(MOST_WARPS, float32)
    r = cuda.blockIdx.x
    begin, first, last, end = bounds_of_share(logits_RV[r], logits_RV.shape[1])
    largest, total = max_and_sum_of_share(logits_RV[r], begin, first, last, end)
    largest, total = max_and_sum_of_block(largest, total, largest_X, total_X)
    if cuda.threadIdx.x == 0:
        score_R[r] = logits_RV[r, token_R[r]] - largest - log_of_sum(total, largest)


# What each kernel is compiled and type-checked for, without a GPU.
_LOGITS, _ROW, _TROUBLE = float32[:, ::1], float32[::1], int64[::1]
_SCORES = (_LOGITS, _LOGITS, _TROUBLE)
SIGNATURES = {
    scores_in_three_passes: [_SCORES],
    scores_in_two_passes: [_SCORES],
    scores_of_rows: [_SCORES],
    add_up_shares: [(_LOGITS, int64, _LOGITS, _LOGITS)],
    write_shares: [(_LOGITS, int64, _LOGITS, _LOGITS, _LOGITS, _TROUBLE)],
    score_of_token: [(_LOGITS, _TROUBLE, _ROW)],
}
# Sixteen numbers on their way take as many registers; a block of 1,024 threads may have 64 for each.
REGISTERS = {scores_of_rows: 64, add_up_shares: 64, write_shares: 64, score_of_token: 64}
LARGEST_BLOCK = {scores_of_rows: 1024, score_of_token: 1024}
