"""The best continuations of a beam without a sort, and by HARS (LightSeq, section 2.2).

1. A block per sentence finds the best score, then the best of those that come after it, and so on: C passes over all
   scores.
2. HARS in three kernels. The rough threshold: the least of the maxima of C groups. Retrieve: what reaches it (>=, for
   one of the best C may be the threshold itself) is written side by side. Rerank: the C passes, over that alone. Two
   passes over all scores remain.
3. One pass remains: each block stages a slice of the scores in shared memory, finds a threshold there and hands on what
   reaches it. Its 128 threads are 128 groups, and the C-th largest of their maxima is the threshold, which lets fewer
   through than the least of C. Slices are many, so the whole GPU reads; version 2 has a block per sentence.
4. No staging: a thread keeps the largest of what it reads by 128-bit loads (common/rows.py), and only threads whose
   largest reaches the threshold look again, some C of 128. What they find is ranked, a thread for each, so that a share
   hands on its best C in order, in places of their own: no counters to set to 0, which took two more launches. Version
   3 spent its time on thresholds, one for each 2,048 scores, and on loads of four bytes: 10 % of a copy on 1 GB (H100,
   2026-11-26). Floor: B*X*4 bytes over the bandwidth, and two kernels. Predicted 75 % on 1 GB and 4, 5 and 9 us for 1,
   8 and 32 sentences of 4 beams in a graph; measured (H100, 2026-11-26) 91 % and 12.8, 15.1 and 17.1 us, with branches
   where ranks are counted. Without them: 7, 9 and 11 us predicted; measured (H100, 2026-11-26) 94 % and 8.9, 9.6 and
   12.5 us. Version 3 took 38.1, 51.5 and 111.5 us.

If more survive than there is room for (all scores equal, or all large ones in one group), the passes go over everything
that they were to be picked from: nothing is dropped. Survivors are counted by an atomic, so they lie in whatever order
they came; of two of them the score and the column say which goes first, so that the result is always the same.

Scores are float32, or float64 as the sums of scores and noise by which a beam's samples are drawn: of two that float32
cannot tell apart the better one must win. A kernel is compiled for either, and shares arrays of the scores' dtype.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, int32, int64

from ..device.launch import launch
from ..reference import scratch
from .common.arrays import filled_scratch
from .common.best_columns import (
    hold_scores_reaching,
    keep_scores_reaching,
    merge_best_of_shares,
    pick_from_share_in_passes,
    result_arrays,
    write_best_in_order,
    write_nan,
)
from .common.ranking import (
    first_of_block,
    goes_first,
    kth_largest_of_block,
    least_maximum_of_groups,
    threshold_of_block,
)
from .common.rows import (
    NOWHERE,
    bounds_of_share,
    holds_nan,
    largest_of_four,
    load_four,
    load_four_before,
    split_into_shares,
    unaligned_column_of,
)

THREADS = 128  # of a block: one constant, for the shapes of shared arrays; no more candidates in versions 2 and 3
WARPS = THREADS // 32
ROOM = 1024  # survivors of a sentence that version 2 has room for
SLICE = 2048  # scores that a block of version 3 stages
INFINITY, NAN = float32(np.inf), float32(np.nan)


def top_candidates_v1(scores_BX, C, out=None):
    """The best C of each row of scores_BX with their columns, one pass over all scores for each.

    Launches `pick_candidates_in_passes` in B blocks of 128. Reads sBXC bytes and writes (s + 8)BC; s: bytes of a score.
    """
    best_BC, index_BC = result_arrays(scores_BX, len(scores_BX), C, out)
    launch(pick_candidates_in_passes, len(scores_BX), THREADS, scores_BX, best_BC, index_BC)
    return best_BC, index_BC


@cuda.jit
def pick_candidates_in_passes(scores_BX, best_BC, index_BC):
    """Finds the best score that comes after the last one found, C times.

    Grid B, block 128. Reads sXC bytes a row and writes (s + 8)C.
    """
    part = cuda.shared.array(WARPS, scores_BX.dtype)
    place = cuda.shared.array(WARPS, int64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    has_nan = int32(0)
    best, column = INFINITY, -1
    for c in range(best_BC.shape[1]):
        mine, where = -INFINITY, NOWHERE
        for x in range(t, scores_BX.shape[1], THREADS):
            score = scores_BX[b, x]
            if score != score:
                has_nan = int32(1)
            if goes_first(best, column, score, x) and goes_first(score, x, mine, where):
                mine, where = score, x
        best, column = first_of_block(mine, where, part, place)
        if t == 0:
            best_BC[b, c], index_BC[b, c] = best, column
    if cuda.syncthreads_or(has_nan):
        write_nan(best_BC, index_BC, b)


def top_candidates_v2(scores_BX, C, out=None):
    """The best C of each row of scores_BX with their columns, by HARS in three kernels.

    Launches `find_rough_threshold` and `rerank_survivors` in B blocks, `retrieve_above_threshold` as (B, ceil(X /
    128)), of 128. Reads 3sBX bytes, thresholds included, and (s + 8)C for each survivor. More candidates than a block
    has threads take version 1.
    """
    if C > THREADS:
        return top_candidates_v1(scores_BX, C, out)
    B, X = scores_BX.shape
    best_BC, index_BC = result_arrays(scores_BX, B, C, out)
    threshold_B = np.empty_like(scores_BX, shape=B)
    survivor_BX, count_B, has_nan_B = allocate_survivors(scores_BX, B, ROOM)
    launch(find_rough_threshold, B, THREADS, scores_BX, C, threshold_B)
    grid, survivors = (B, -(-X // THREADS)), (survivor_BX, count_B, has_nan_B)
    launch(retrieve_above_threshold, grid, THREADS, scores_BX, threshold_B, *survivors)
    launch(rerank_survivors, B, THREADS, scores_BX, survivor_BX, count_B, has_nan_B, best_BC, index_BC)
    return best_BC, index_BC


@cuda.jit
def find_rough_threshold(scores_BX, C, threshold_B):
    """The least of the maxima of C groups of a row: thread t has every 128th score from t on, for group t mod C.

    Grid B, block 128. Reads sX bytes a row and writes s.
    """
    largest = cuda.shared.array(THREADS, scores_BX.dtype)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine = -INFINITY
    for x in range(t, scores_BX.shape[1], THREADS):
        if scores_BX[b, x] > mine:
            mine = scores_BX[b, x]
    threshold = least_maximum_of_groups(largest, mine, C)
    if t == 0:
        threshold_B[b] = threshold


@cuda.jit
def retrieve_above_threshold(scores_BX, threshold_B, survivor_BX, count_B, has_nan_B):
    """Writes the columns whose score reaches the row's threshold side by side, and notes NaN.

    Grid (B, ceil(X / 128)), block 128. A thread reads 2s bytes, and writes 8 of a column that survives.
    """
    b, x = cuda.blockIdx.x, cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if x < scores_BX.shape[1]:
        score = scores_BX[b, x]
        if score != score:
            has_nan_B[b] = 1
        elif score >= threshold_B[b]:
            place = cuda.atomic.add(count_B, b, 1)
            if place < survivor_BX.shape[1]:
                survivor_BX[b, place] = x


@cuda.jit
def rerank_survivors(scores_BX, survivor_BX, count_B, has_nan_B, best_BC, index_BC):
    """The best C among the survivors of a row, one pass over these for each; over all scores if too many survive.

    Grid B, block 128. Reads (s + 8)C bytes a survivor and writes (s + 8)C a row.
    """
    part = cuda.shared.array(WARPS, scores_BX.dtype)
    place = cuda.shared.array(WARPS, int64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    if has_nan_B[b]:
        write_nan(best_BC, index_BC, b)
        return
    fits = count_B[b] <= survivor_BX.shape[1]
    many = count_B[b] if fits else scores_BX.shape[1]
    best, column = INFINITY, -1
    for c in range(best_BC.shape[1]):
        mine, where = -INFINITY, NOWHERE
        for i in range(t, many, THREADS):
            x = survivor_BX[b, i] if fits else i
            score = scores_BX[b, x]
            if goes_first(best, column, score, x) and goes_first(score, x, mine, where):
                mine, where = score, x
        best, column = first_of_block(mine, where, part, place)
        if t == 0:
            best_BC[b, c], index_BC[b, c] = best, column


def top_candidates_v3(scores_BX, C, out=None, *, workspace=None):
    """The best C of each row of scores_BX with their columns, in one pass over slices in shared memory.

    Launches `retrieve_from_slice` as (B, ceil(X / 2048)) blocks and `rerank_survivors` in B, of 128. Reads sBX bytes,
    and (s + 8)C for each survivor. More candidates than a block has threads take version 1, here and below.
    """
    if C > THREADS:
        return top_candidates_v1(scores_BX, C, out)
    B, X = scores_BX.shape
    slices = -(-X // SLICE)
    best_BC, index_BC = result_arrays(scores_BX, B, C, out)
    survivor_BX, count_B, has_nan_B = allocate_survivors(scores_BX, B, slices * THREADS, workspace)
    launch(retrieve_from_slice, (B, slices), THREADS, scores_BX, C, survivor_BX, count_B, has_nan_B)
    launch(rerank_survivors, B, THREADS, scores_BX, survivor_BX, count_B, has_nan_B, best_BC, index_BC)
    return best_BC, index_BC


@cuda.jit
def retrieve_from_slice(scores_BX, C, survivor_BX, count_B, has_nan_B):
    """Hands on what reaches its slice's threshold: at most 128 columns, so that there is room for all slices.

    Grid (B, ceil(X / 2048)), block 128. Reads 2,048s bytes a block, and writes 8 for each column that survives.
    """
    tile = cuda.shared.array(SLICE, scores_BX.dtype)
    largest = cuda.shared.array(THREADS, scores_BX.dtype)
    kept = cuda.shared.array(THREADS, int64)
    number = cuda.shared.array(1, int32)
    part = cuda.shared.array(WARPS, scores_BX.dtype)
    place = cuda.shared.array(WARPS, int64)
    b, t, first = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockIdx.y * SLICE
    width = min(SLICE, scores_BX.shape[1] - first)
    mine = -INFINITY
    for k in range(t, width, THREADS):
        tile[k] = scores_BX[b, first + k]
        if tile[k] != tile[k]:
            has_nan_B[b] = 1
        if tile[k] > mine:
            mine = tile[k]
    threshold = kth_largest_of_block(largest, mine, C)
    many = keep_scores_reaching(tile, width, threshold, C, kept, number, part, place)
    if t == 0:
        number[0] = cuda.atomic.add(count_B, b, many)
    cuda.syncthreads()
    if t < many:
        survivor_BX[b, number[0] + t] = first + kept[t]


def top_candidates(scores_BX, C, out=None, *, workspace=None):
    """The best C of each row of scores_BX with their columns, by 128-bit loads and ranks.

    Version 4: `retrieve_from_share` as (B, shares) blocks and `merge_shares` in B, of 128. Reads sBX bytes, once more
    what the threads that reach a threshold had read, and (s + 8)C a share; writes (s + 8)C a share and a row.
    """
    if C > THREADS:
        return top_candidates_v1(scores_BX, C, out)
    B, X = scores_BX.shape
    shares, columns = split_into_shares(B, X, most=64)
    best_BC, index_BC = result_arrays(scores_BX, B, C, out)
    score_BX = scratch(workspace, (B, shares * C), scores_BX)
    column_BX = scratch(workspace, (B, shares * C), scores_BX, np.int64)
    launch(retrieve_from_share, (B, shares), THREADS, scores_BX, columns, C, score_BX, column_BX)
    launch(merge_shares, B, THREADS, score_BX, column_BX, best_BC, index_BC)
    return best_BC, index_BC


@cuda.jit
def retrieve_from_share(scores_BX, columns, C, score_BX, column_BX):
    """The best C of a block's share, in order, with their columns; NaN for all of them if a score is NaN.

    Grid (B, shares), block 128. Reads s bytes a column of the share, and writes (s + 8)C.
    """
    largest = cuda.shared.array(THREADS, scores_BX.dtype)
    held_score = cuda.shared.array(THREADS, scores_BX.dtype)
    held_column = cuda.shared.array(THREADS, int64)
    number = cuda.shared.array(1, int32)
    part = cuda.shared.array(WARPS, scores_BX.dtype)
    place = cuda.shared.array(WARPS, int64)
    r, t, T = cuda.blockIdx.x, cuda.threadIdx.x, THREADS
    row_X = scores_BX[r]
    begin, first, last, end = bounds_of_share(row_X, columns)
    column = unaligned_column_of(t, begin, first, last, end)
    mine, has_nan = -INFINITY, False
    if column != NOWHERE:
        mine, has_nan = max(mine, row_X[column]), row_X[column] != row_X[column]
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_X, v), load_four_before(row_X, v + 4 * T, last)
        c, d = load_four_before(row_X, v + 8 * T, last), load_four_before(row_X, v + 12 * T, last)
        mine = max(max(mine, max(largest_of_four(a), largest_of_four(b))), max(largest_of_four(c), largest_of_four(d)))
        has_nan |= holds_nan(a) | holds_nan(b) | holds_nan(c) | holds_nan(d)
        v += 16 * T
    slot = cuda.blockIdx.y * C
    if cuda.syncthreads_or(int32(has_nan)):
        if t < C:
            score_BX[r, slot + t], column_BX[r, slot + t] = NAN, t
        return
    threshold = threshold_of_block(largest, mine, C)
    many = hold_scores_reaching(row_X, begin, first, last, end, mine, threshold, held_score, held_column, number)
    if many <= THREADS:
        write_best_in_order(many, C, held_score, held_column, score_BX[r], column_BX[r], slot)
    else:
        pick_from_share_in_passes(row_X, begin, end, C, score_BX[r], column_BX[r], slot, part, place)


@cuda.jit
def merge_shares(score_BX, column_BX, best_BC, index_BC):
    """The best C of a row among those of its shares.

    Grid B, block 128. Reads (s + 8)C bytes a share, scores twice, and writes (s + 8)C.
    """
    merge_best_of_shares(cuda.blockIdx.x, score_BX, column_BX, best_BC, index_BC)


def allocate_survivors(scores, B, columns, workspace=None):
    """(their columns, how many there are, whether a sentence has NaN), where the scores lie."""
    survivor_BX = scratch(workspace, (B, columns), scores, np.int64)
    count_B, has_nan_B = (filled_scratch(workspace, B, scores, 0, np.int32) for _ in range(2))
    return survivor_BX, count_B, has_nan_B


# What each kernel is compiled and type-checked for, without a GPU.
_EITHER, _COLUMNS, _COUNTS = (float32, float64), int64[:, ::1], int32[::1]
SIGNATURES = {
    pick_candidates_in_passes: [(number[:, ::1], number[:, ::1], _COLUMNS) for number in _EITHER],
    find_rough_threshold: [(number[:, ::1], int64, number[::1]) for number in _EITHER],
    retrieve_above_threshold: [(number[:, ::1], number[::1], _COLUMNS, _COUNTS, _COUNTS) for number in _EITHER],
    rerank_survivors: [(number[:, ::1], _COLUMNS, _COUNTS, _COUNTS, number[:, ::1], _COLUMNS) for number in _EITHER],
    retrieve_from_slice: [(number[:, ::1], int64, _COLUMNS, _COUNTS, _COUNTS) for number in _EITHER],
    retrieve_from_share: [(number[:, ::1], int64, int64, number[:, ::1], _COLUMNS) for number in _EITHER],
    merge_shares: [(number[:, ::1], _COLUMNS, number[:, ::1], _COLUMNS) for number in _EITHER],
}
# A block a sentence is too few for registers to be short; of slices, a T4's SM holds 1,024 threads, of 64 registers.
REGISTERS = {
    pick_candidates_in_passes: 64,
    rerank_survivors: 64,
    retrieve_from_slice: 64,
    retrieve_from_share: 72,
    merge_shares: 64,
}
