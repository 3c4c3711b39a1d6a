"""The k likeliest tokens without a sort (LightSeq's `ker_topk_sample`, which keeps roughly k; these keep exactly k).

Scores are compared by their bits, as integers that are ordered as the scores are: between two integers there
is always a middle, so that 32 halvings of their range find any threshold.

1. A warp per row looks for the largest threshold that k scores reach: 32 times it halves the range and counts, and
   reads the whole row each time.
2. A block per row, and two passes over it in place of 32. The k-th largest of the maxima of 128 threads is a rough
   threshold, as in LightSeq's search (section 2.2): k scores reach it, and hardly more. What does is put side by side
   into shared memory, and one warp halves on over that alone.
3. Up to 1,024 threads for a row, by 128-bit loads (common/rows.py); threads whose largest score does not reach the
   rough threshold do not look again; and what survives is ranked, a thread for each, where 32 halvings by one warp took
   longer than all else. No bits are needed for that. Floor: 8RV bytes at 2.4 TB/s, and a launch. Predicted for an H100:
   8 us for 1 to 128 rows in a graph. Measured (H100, 2026-11-26) 1,690 us, 1 % of a copy on 1 GB, but not for what a
   step does: each launch filtered what the one before had left. Then fewer than k threads have a finite score, all
   scores survive, and a warp halves over the row (reasoned). Versions 1 and 2 took 2,031 and 3,448 us there. On fresh
   scores: not measured.

If more survive than there is room for (equal scores, or all large ones in one thread's share), the warp halves over the
whole row: nothing is dropped. What ties with the k-th stays, so survivors may lie in any order.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int32, int64

from ..device.launch import launch
from ..reference import scores_to_change
from .common.arrays import require_float32
from .common.ranking import goes_first, kth_largest_of_block, threshold_of_block
from .common.reduction import THREADS, WARP, warp_sum
from .common.rows import (
    INFINITY,
    NOWHERE,
    bounds_of_share,
    largest_of_four,
    load_four,
    load_four_before,
    threads_for_row,
    unaligned_column_of,
)
from .common.score_order import HIGHEST, LOWEST, ordered_bits_of
from .common.vector_load import wide_store

ROOM = 2048  # survivors that a block has room for
MOST_THREADS = 1024
MINUS_INFINITY = np.int32(np.float32(-np.inf).view(np.int32))


def top_k_filter_v1(scores_RV, k, out=None):
    """Rules out all but the k best scores of each row, by a warp that halves the range of scores.

    Launches `filter_row_by_halving` in R blocks of 32. Reads 132RV bytes, the row 33 times, and writes 4 for each score
    ruled out.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    bits_RV = scores_RV.view(np.int32)
    if k < bits_RV.shape[1]:
        launch(filter_row_by_halving, len(bits_RV), WARP, bits_RV, k)
    return scores_RV


@cuda.jit
def filter_row_by_halving(bits_RV, k):
    """Finds the k-th best score of a row by 32 halvings, and rules out what is below.

    Grid R, block 32. Reads 132V bytes a row, and writes 4 for each score ruled out.
    """
    r = cuda.blockIdx.x
    rule_out_below(bits_RV, r, kth_threshold_of_row(bits_RV, r, k))


@cuda.jit(device=True)
def kth_threshold_of_row(bits_RV, r, k):
    """The largest threshold that k scores reach, for every lane of a warp."""
    low, high = LOWEST, HIGHEST
    while low < high:
        middle = (low + high + 1) >> 1
        reach = int32(0)
        for v in range(cuda.threadIdx.x, bits_RV.shape[1], WARP):
            if ordered_bits_of(bits_RV[r, v]) >= middle:
                reach += int32(1)
        if warp_sum(reach) >= k:
            low = middle
        else:
            high = middle - 1
    return low


@cuda.jit(device=True)
def rule_out_below(bits_RV, r, least):
    """Minus infinity for the scores of row r whose integer is below `least`, by the whole block."""
    for v in range(cuda.threadIdx.x, bits_RV.shape[1], cuda.blockDim.x):
        if ordered_bits_of(bits_RV[r, v]) < least:
            bits_RV[r, v] = MINUS_INFINITY


def top_k_filter_v2(scores_RV, k, out=None):
    """Rules out all but the k best scores of each row, halving over those alone that reach a rough threshold.

    Launches `filter_survivors_by_halving` in R blocks of 128. Reads 12RV bytes and writes 4 for each score ruled out. A
    k above 128 takes version 1, here and below.
    """
    if k > THREADS:
        return top_k_filter_v1(scores_RV, k, out)
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    bits_RV = scores_RV.view(np.int32)
    if k < bits_RV.shape[1]:
        launch(filter_survivors_by_halving, len(bits_RV), THREADS, bits_RV, k)
    return scores_RV


@cuda.jit
def filter_survivors_by_halving(bits_RV, k):
    """Finds a rough threshold, puts what reaches it into shared memory, and one warp halves over that.

    Grid R, block 128; 8 KiB of shared memory for survivors. Reads 12V bytes a row, or 140V if they do not fit, and
    writes 4 for each score ruled out.
    """
    largest = cuda.shared.array(THREADS, int64)
    held = cuda.shared.array(ROOM, int32)
    number = cuda.shared.array(1, int32)
    threshold = cuda.shared.array(1, int64)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, bits_RV.shape[1]
    if t == 0:
        number[0] = 0
    mine = LOWEST
    for v in range(t, V, THREADS):
        mine = max(mine, ordered_bits_of(bits_RV[r, v]))
    rough = kth_largest_of_block(largest, mine, k)
    for v in range(t, V, THREADS):
        key = ordered_bits_of(bits_RV[r, v])
        if key >= rough:
            place = cuda.atomic.add(number, 0, 1)
            if place < ROOM:
                held[place] = key
    cuda.syncthreads()  # all survivors are there
    if t < WARP:
        fits = number[0] <= ROOM
        kth = kth_threshold_of_held(held, number[0], k, rough) if fits else kth_threshold_of_row(bits_RV, r, k)
        if t == 0:
            threshold[0] = kth
    cuda.syncthreads()
    rule_out_below(bits_RV, r, threshold[0])


@cuda.jit(device=True)
def kth_threshold_of_held(held, many, k, low):
    """The largest threshold that k of the held scores reach, for every lane of a warp; k of them reach `low`."""
    high = HIGHEST
    while low < high:
        middle = (low + high + 1) >> 1
        reach = int32(0)
        for i in range(cuda.threadIdx.x, many, WARP):
            if held[i] >= middle:
                reach += int32(1)
        if warp_sum(reach) >= k:
            low = middle
        else:
            high = middle - 1
    return low


def top_k_filter(scores_RV, k, out=None):
    """Rules out all but the k best scores of each row, by 128-bit loads, and survivors ranked a thread each.

    Version 3: `filter_survivors_by_rank` in R blocks of 128 to 1,024. Reads 8RV bytes, and once more what the threads
    that reach the threshold had read; writes 4RV.
    """
    if k > THREADS:
        return top_k_filter_v1(scores_RV, k, out)
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    bits_RV = scores_RV.view(np.int32)
    if k < bits_RV.shape[1]:
        threads = max(threads_for_row(scores_RV.shape[1]), THREADS)
        launch(filter_survivors_by_rank, len(scores_RV), threads, scores_RV, bits_RV, k)
    return scores_RV


@cuda.jit(launch_bounds=1024)
def filter_survivors_by_rank(scores_RV, bits_RV, k):
    """Finds a rough threshold, ranks what reaches it, and rules out what is below the k-th.

    Grid R, block 128 to 1,024. Reads 8V to 12V bytes a row, and 128V more if survivors do not fit; writes 4V.
    """
    largest = cuda.shared.array(MOST_THREADS, float32)
    held = cuda.shared.array(ROOM, float32)
    number = cuda.shared.array(1, int32)
    threshold = cuda.shared.array(1, float32)
    kth_bits = cuda.shared.array(1, int64)
    r, t, T = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    row_V = scores_RV[r]
    begin, first, last, end = bounds_of_share(row_V, row_V.shape[0])
    column = unaligned_column_of(t, begin, first, last, end)
    if t == 0:
        number[0], threshold[0] = 0, -INFINITY
    mine = -INFINITY
    if column != NOWHERE:
        mine = max(mine, row_V[column])
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_V, v), load_four_before(row_V, v + 4 * T, last)
        c, d = load_four_before(row_V, v + 8 * T, last), load_four_before(row_V, v + 12 * T, last)
        mine = max(max(mine, max(largest_of_four(a), largest_of_four(b))), max(largest_of_four(c), largest_of_four(d)))
        v += 16 * T

    rough = threshold_of_block(largest, mine, k)
    if mine >= rough:
        if column != NOWHERE:
            hold_score(row_V[column], rough, held, number)
        v = first + 4 * t
        while v < last:
            w, x, y, z = load_four(row_V, v)
            hold_score(w, rough, held, number)
            hold_score(x, rough, held, number)
            hold_score(y, rough, held, number)
            hold_score(z, rough, held, number)
            v += 4 * T
    cuda.syncthreads()  # all survivors are there

    many = int64(number[0])
    if many <= ROOM:
        for i in range(t, many, T):
            before = 0
            for other in range(many):
                if goes_first(held[other], other, held[i], i):
                    before += 1
            if before == k - 1:
                threshold[0] = held[i]
        cuda.syncthreads()
        rule_out_share_below(row_V, begin, first, last, end, threshold[0])
    else:
        if t < WARP:
            kth = kth_threshold_of_row(bits_RV, r, k)
            if t == 0:
                kth_bits[0] = kth
        cuda.syncthreads()
        rule_out_below(bits_RV, r, kth_bits[0])


@cuda.jit(device=True)
def hold_score(score, rough, held, number):
    """Holds one score if it reaches the threshold and there is room."""
    if score >= rough:
        i = cuda.atomic.add(number, 0, 1)
        if i < ROOM:
            held[i] = score


@cuda.jit(device=True)
def rule_out_share_below(row_V, begin, first, last, end, least):
    """Minus infinity for what is below `least`."""
    t, T = cuda.threadIdx.x, cuda.blockDim.x
    v = first + 4 * t
    while v < last:
        a, b = load_four(row_V, v), load_four_before(row_V, v + 4 * T, last)
        c, d = load_four_before(row_V, v + 8 * T, last), load_four_before(row_V, v + 12 * T, last)
        store_four_from(row_V, v, last, a, least)
        store_four_from(row_V, v + 4 * T, last, b, least)
        store_four_from(row_V, v + 8 * T, last, c, least)
        store_four_from(row_V, v + 12 * T, last, d, least)
        v += 16 * T
    column = unaligned_column_of(t, begin, first, last, end)
    if column != NOWHERE and row_V[column] < least:
        row_V[column] = -INFINITY


@cuda.jit(device=True)
def store_four_from(row_V, v, last, four, least):
    """Stores four scores from column v on, minus infinity for those below `least`, if v is before `last`."""
    if v < last:
        w, x, y, z = four
        w, x = -INFINITY if w < least else w, -INFINITY if x < least else x
        y, z = -INFINITY if y < least else y, -INFINITY if z < least else z
        wide_store(row_V, v, w, x, y, z)


# What each kernel is compiled and type-checked for, without a GPU.
_BITS = int32[:, ::1]
SIGNATURES = {
    filter_row_by_halving: [(_BITS, int64)],
    filter_survivors_by_halving: [(_BITS, int64)],
    filter_survivors_by_rank: [(float32[:, ::1], _BITS, int64)],
}
REGISTERS = {filter_survivors_by_rank: 64}
LARGEST_BLOCK = {filter_survivors_by_rank: 1024}
