"""The likeliest token of each row, and the model's log-probability of it.

1. A block per row, in three passes: the largest score, the largest logit, the sum of exponentials.
2. One pass: each thread keeps its best score, and a sum of exponentials that is scaled anew when its largest logit
   grows, as in hars.py. Where nothing has touched the scores, they are the logits, and come from the cache.
3. Blocks share a row, by 128-bit loads (common/rows.py): of four scores the largest is compared with the thread's best,
   and which of the four it was is looked up once, at the end. Scores that are the logits are read once. A second kernel
   puts the shares together. Floor: R*V*4 bytes over the bandwidth, and two kernels. Versions 1 and 2 tested each number
   and kept one load of four bytes on its way: 32 and 41 % of a copy on 1 GB (H100, 2026-11-26). Predicted 75 % on 1 GB
   and 3.2 us for one row in a graph; measured (H100, 2026-11-26) 108 %, for it reads alone, and 5.7, 5.9, 7.4 and
   11.1 us for 1, 4, 32 and 128 rows. Version 2 took 117.8 us for one.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32, int64

from ..device.arrays import address_of
from ..device.launch import launch
from ..ops import FINE, NONE_LEFT, NOT_A_NUMBER
from ..reference import scratch
from ..reference.argmax import result_arrays
from .common.arrays import require_float32
from .common.log_sum import add_compensated, log_of_sum, max_and_sum_with_next, rescale_sum
from .common.ranking import first_of_block, first_of_warp, goes_first
from .common.reduction import THREADS, WARPS, block_max, block_sum
from .common.rows import (
    INFINITY,
    LOWEST,
    NAN,
    NOWHERE,
    bounds_of_share,
    holds_nan,
    largest_of_four,
    load_four,
    load_four_before,
    max_and_sum_of_block,
    max_and_sum_of_row,
    max_and_sum_of_share,
    max_and_sum_with_one,
    max_and_sum_with_sixteen,
    split_into_shares,
    unaligned_column_of,
)


def argmax_tokens_v1(scores_RV, logits_RV=None, out=None):
    """The best token of each row of scores_RV and its log-probability, in three passes.

    Launches `largest_in_passes` in R blocks of 128. Reads 12RV bytes and writes 20R.
    """
    return launch_block_per_row(largest_in_passes, scores_RV, logits_RV, out)


def launch_block_per_row(kernel, scores_RV, logits_RV, out):
    """A block per row. Without logits the kernel gets the scores in their place, and takes no notice of them."""
    out = result_arrays(require_float32(scores_RV), out)
    logits, has_logits = (scores_RV, 0) if logits_RV is None else (logits_RV, 1)
    launch(kernel, len(scores_RV), THREADS, scores_RV, logits, has_logits, *out)
    return out


@cuda.jit
def largest_in_passes(scores_RV, logits_RV, has_logits, token_R, logprob_R, trouble_R):
    """Finds a row's best score, then its largest logit, then the sum of exponentials, a pass for each.

    Grid R, block 128. Reads 12V bytes a row and writes 20.
    """
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, scores_RV.shape[1]
    best, column, has_nan = -INFINITY, NOWHERE, int32(0)
    for v in range(t, V, THREADS):
        if scores_RV[r, v] != scores_RV[r, v]:
            has_nan = int32(1)
        if goes_first(scores_RV[r, v], v, best, column):
            best, column = scores_RV[r, v], v
    best, column = first_of_block(best, column, part, place)
    is_nan = cuda.syncthreads_or(has_nan)
    largest = -INFINITY
    for v in range(t, V, THREADS):
        if logits_RV[r, v] > largest:
            largest = logits_RV[r, v]
    largest = block_max(largest, part)
    total = lost = float32(0)
    for v in range(t, V, THREADS):
        total, lost = add_compensated(total, lost, math.exp(logits_RV[r, v] - largest))
    total = block_sum(total, part)
    if t == 0:
        write_row_results(r, best, column, is_nan, logits_RV, has_logits, largest, total, token_R, logprob_R, trouble_R)


@cuda.jit(device=True)
def write_row_results(r, best, column, is_nan, logits_RV, has_logits, largest, total, token_R, logprob_R, trouble_R):
    """The row's results, by one thread. A row all of whose scores are NaN has no column."""
    token_R[r], logprob_R[r], trouble_R[r] = 0, NAN, NOT_A_NUMBER
    if not is_nan:
        logprob = logits_RV[r, column] - largest - log_of_sum(total, largest) if has_logits else best
        if logprob == logprob:
            token_R[r], logprob_R[r] = column, logprob
            trouble_R[r] = FINE if best > -INFINITY else NONE_LEFT


def argmax_tokens_v2(scores_RV, logits_RV=None, out=None):
    """The best token of each row of scores_RV and its log-probability, in one pass over scores and logits.

    Launches `largest_in_one_pass` in R blocks of 128. Reads 8RV bytes, or 4RV without logits, and writes 20R.
    """
    return launch_block_per_row(largest_in_one_pass, scores_RV, logits_RV, out)


@cuda.jit
def largest_in_one_pass(scores_RV, logits_RV, has_logits, token_R, logprob_R, trouble_R):
    """Keeps a thread's best score and its running sum of exponentials, then joins them over the block.

    Grid R, block 128. Reads 8V bytes a row, or 4V without logits, and writes 20.
    """
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    best, column, has_nan = -INFINITY, NOWHERE, int32(0)
    mine, total, lost = -INFINITY, float32(0), float32(0)
    for v in range(t, scores_RV.shape[1], THREADS):
        score = scores_RV[r, v]
        if score != score:
            has_nan = int32(1)
        if goes_first(score, v, best, column):
            best, column = score, v
        if has_logits:
            mine, total, lost = max_and_sum_with_next(mine, total, lost, logits_RV[r, v])
    best, column = first_of_block(best, column, part, place)
    is_nan = cuda.syncthreads_or(has_nan)
    largest = block_max(mine, part)
    total = block_sum(rescale_sum(total, mine, largest), part)
    if t == 0:
        write_row_results(r, best, column, is_nan, logits_RV, has_logits, largest, total, token_R, logprob_R, trouble_R)


def argmax_tokens(scores_RV, logits_RV=None, out=None, *, workspace=None):
    """The best token of each row of scores_RV and its log-probability, by 128-bit loads, several blocks a row.

    Version 3: one kernel over (R, shares) blocks of 128, then `best_of_shares` in R warps. Reads 4RV bytes where the
    scores are the logits or there are none, otherwise 8RV; parts take 20 bytes a share; writes 20R.
    """
    (R, V), out = scores_RV.shape, result_arrays(require_float32(scores_RV), out)
    shares, columns = split_into_shares(R, V)
    best_RX, largest_RX, total_RX = (scratch(workspace, (R, shares), scores_RV) for _ in range(3))
    column_RX = scratch(workspace, (R, shares), scores_RV, np.int64)
    parts = best_RX, column_RX, largest_RX, total_RX
    if logits_RV is None:
        launch(best_of_scores, (R, shares), THREADS, scores_RV, columns, *parts)
    elif is_same_memory(logits_RV, scores_RV):
        launch(best_of_logits, (R, shares), THREADS, logits_RV, columns, *parts)
    else:
        launch(best_of_both, (R, shares), THREADS, scores_RV, logits_RV, columns, *parts)
    logits_RV, has_logits = (scores_RV, 0) if logits_RV is None else (logits_RV, 1)
    launch(best_of_shares, R, 32, logits_RV, has_logits, *parts, *out)
    return out


def is_same_memory(a, b):
    """Whether two arrays are the same memory, read the same way."""
    return a is b or (address_of(a) == address_of(b) and a.strides == b.strides)


@cuda.jit
def best_of_logits(logits_RV, columns, best_RX, column_RX, largest_RX, total_RX):
    """Best score, maximum and sum of exponentials of a share, where the scores are the logits: NaN makes the sum NaN.

    Grid (R, shares), block 128. Reads 4 bytes a column of the share, and writes 20 a share.
    """
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    largest_X = cuda.shared.array(WARPS, float32)
    total_X = cuda.shared.array(WARPS, float32)
    r, share, t, T = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x, THREADS
    row_V = logits_RV[r]
    begin, first, last, end = bounds_of_share(row_V, columns)
    best, where, largest, total = -INFINITY, NOWHERE, LOWEST, float32(0)
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_V, v), load_four_before(row_V, v + 4 * T, last)
        c, d = load_four_before(row_V, v + 8 * T, last), load_four_before(row_V, v + 12 * T, last)
        best, where = best_with_four(best, where, a, v)
        best, where = best_with_four(best, where, b, v + 4 * T)
        best, where = best_with_four(best, where, c, v + 8 * T)
        best, where = best_with_four(best, where, d, v + 12 * T)
        largest, total = max_and_sum_with_sixteen(largest, total, a, b, c, d)
        v += 16 * T
    column = find_column_of_best(row_V, best, where)
    x = unaligned_column_of(t, begin, first, last, end)
    if x != NOWHERE:
        largest, total = max_and_sum_with_one(largest, total, row_V[x])
        if goes_first(row_V[x], x, best, column):
            best, column = row_V[x], x
    best, column = first_of_block(best, column, part, place)
    largest, total = max_and_sum_of_block(largest, total, largest_X, total_X)
    if t == 0:
        best_RX[r, share], column_RX[r, share], largest_RX[r, share], total_RX[r, share] = best, column, largest, total


@cuda.jit(device=True)
def best_with_four(best, where, four, v):
    """The best so far, or the largest of four from v on, if it is above it."""
    most = largest_of_four(four)
    return (most, v) if most > best else (best, where)


@cuda.jit(device=True)
def find_column_of_best(row_V, best, where):
    """The column of the best, which is among the four from `where` on; NOWHERE of a thread that saw minus infinity."""
    if where != NOWHERE:
        while row_V[where] != best:
            where += 1
    return where


@cuda.jit
def best_of_both(scores_RV, logits_RV, columns, best_RX, column_RX, largest_RX, total_RX):
    """Finds the best score of a share, and maximum and sum of exponentials of the logits of that share.

    Grid (R, shares), block 128. Reads 8 bytes a column of the share, and writes 20 a share.
    """
    largest_X = cuda.shared.array(WARPS, float32)
    total_X = cuda.shared.array(WARPS, float32)
    r, share = cuda.blockIdx.x, cuda.blockIdx.y
    begin, first, last, end = bounds_of_share(logits_RV[r], columns)
    largest, total = max_and_sum_of_share(logits_RV[r], begin, first, last, end)
    largest, total = max_and_sum_of_block(largest, total, largest_X, total_X)
    best, column, is_nan = find_best_of_share(scores_RV[r], columns)
    if cuda.threadIdx.x == 0:
        best_RX[r, share], column_RX[r, share] = best, column
        largest_RX[r, share], total_RX[r, share] = largest, NAN if is_nan else total


@cuda.jit(device=True)
def find_best_of_share(row_V, columns):
    """(best score of a block's share, its column, whether a score is NaN), for every thread."""
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    t, T = cuda.threadIdx.x, THREADS
    begin, first, last, end = bounds_of_share(row_V, columns)
    best, where, has_nan = -INFINITY, NOWHERE, False
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_V, v), load_four_before(row_V, v + 4 * T, last)
        c, d = load_four_before(row_V, v + 8 * T, last), load_four_before(row_V, v + 12 * T, last)
        best, where = best_with_four(best, where, a, v)
        best, where = best_with_four(best, where, b, v + 4 * T)
        best, where = best_with_four(best, where, c, v + 8 * T)
        best, where = best_with_four(best, where, d, v + 12 * T)
        has_nan |= holds_nan(a) | holds_nan(b) | holds_nan(c) | holds_nan(d)
        v += 16 * T
    column = find_column_of_best(row_V, best, where)
    x = unaligned_column_of(t, begin, first, last, end)
    if x != NOWHERE:
        has_nan |= row_V[x] != row_V[x]
        if goes_first(row_V[x], x, best, column):
            best, column = row_V[x], x
    best, column = first_of_block(best, column, part, place)
    return best, column, cuda.syncthreads_or(int32(has_nan))


@cuda.jit
def best_of_scores(scores_RV, columns, best_RX, column_RX, largest_RX, total_RX):
    """Best score of a share, without logits; of the sum nothing is read but whether a score is NaN.

    Grid (R, shares), block 128. Reads 4 bytes a column of the share, and writes 20 a share.
    """
    r, share = cuda.blockIdx.x, cuda.blockIdx.y
    best, column, is_nan = find_best_of_share(scores_RV[r], columns)
    if cuda.threadIdx.x == 0:
        best_RX[r, share], column_RX[r, share] = best, column
        largest_RX[r, share], total_RX[r, share] = float32(0), NAN if is_nan else float32(1)


@cuda.jit
def best_of_shares(
    logits_RV, has_logits, best_RX, column_RX, largest_RX, total_RX, token_R, logprob_R, trouble_R
):  # fmt: skip
    """Joins the shares of a row, a lane for each, and writes the row's results.

    Grid R, block 32. Reads 20 bytes a share, and writes 20.
    """
    r, lane = cuda.blockIdx.x, cuda.threadIdx.x
    best, column = -INFINITY, NOWHERE
    for share in range(lane, best_RX.shape[1], 32):
        if goes_first(best_RX[r, share], column_RX[r, share], best, column):
            best, column = best_RX[r, share], column_RX[r, share]
    best, column = first_of_warp(best, column)
    largest, total = max_and_sum_of_row(r, largest_RX, total_RX)
    if lane == 0:
        if column == NOWHERE:  # all are minus infinity
            column = 0
        is_nan = total != total
        write_row_results(r, best, column, is_nan, logits_RV, has_logits, largest, total, token_R, logprob_R, trouble_R)


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[:, ::1], int64, int64[::1], float32[::1], int64[::1])
_PARTS = (float32[:, ::1], int64[:, ::1], float32[:, ::1], float32[:, ::1])
_RESULTS = (int64[::1], float32[::1], int64[::1])
SIGNATURES = {
    largest_in_passes: [_ARGUMENTS],
    largest_in_one_pass: [_ARGUMENTS],
    best_of_logits: [(float32[:, ::1], int64, *_PARTS)],
    best_of_both: [(float32[:, ::1], float32[:, ::1], int64, *_PARTS)],
    best_of_scores: [(float32[:, ::1], int64, *_PARTS)],
    best_of_shares: [(float32[:, ::1], int64, *_PARTS, *_RESULTS)],
}
REGISTERS = dict.fromkeys((best_of_logits, best_of_both, best_of_scores), 64)  # sixteen numbers on their way
