"""The best C columns of a share of a row, then of all shares of a sentence: pieces of candidates.py and hars.py."""

from __future__ import annotations

import numpy as np
from numba import cuda, int32, int64

from .ranking import first_of_block, goes_first, is_before, threshold_of_block
from .reduction import THREADS, WARPS
from .rows import INFINITY, NAN, NOWHERE, largest_of_four, load_four, load_four_before, unaligned_column_of


def result_arrays(scores, B, C, out):
    """The arrays of the results, which lie where the scores lie."""
    return out or (np.empty_like(scores, shape=(B, C)), np.empty_like(scores, shape=(B, C), dtype=np.int64))


@cuda.jit(device=True)
def write_nan(best_BC, index_BC, b):
    """Writes NaN and columns 0 to C - 1 as the best of sentence b, by the whole block."""
    for c in range(cuda.threadIdx.x, best_BC.shape[1], cuda.blockDim.x):
        best_BC[b, c], index_BC[b, c] = NAN, c


@cuda.jit(device=True)
def keep_scores_reaching(tile, width, threshold, C, kept, number, part, place):
    """Writes to `kept` where the tile's scores reach the threshold; the exact best C if there are more than places.

    Returns how many there are.
    """
    t = cuda.threadIdx.x
    if t == 0:
        number[0] = 0
    cuda.syncthreads()
    for k in range(t, width, THREADS):
        if tile[k] >= threshold:
            free = cuda.atomic.add(number, 0, 1)
            if free < THREADS:
                kept[free] = k
    cuda.syncthreads()
    many = int64(number[0])
    if many > THREADS:
        many = C
        best, where_best = INFINITY, -1
        for c in range(C):
            mine, where = -INFINITY, NOWHERE
            for k in range(t, width, THREADS):
                if goes_first(best, where_best, tile[k], k) and goes_first(tile[k], k, mine, where):
                    mine, where = tile[k], k
            best, where_best = first_of_block(mine, where, part, place)
            if t == 0:
                kept[c] = where_best
    cuda.syncthreads()  # `kept` is complete, and everybody has read `number`
    return many


@cuda.jit(device=True)
def hold_scores_reaching(row_X, begin, first, last, end, mine, threshold, held_score, held_column, number):
    """Side by side what reaches the threshold; how many there are, which may be more than there is room for."""
    t, T = cuda.threadIdx.x, THREADS
    if t == 0:
        number[0] = 0
    cuda.syncthreads()
    if mine >= threshold:
        column = unaligned_column_of(t, begin, first, last, end)
        if column != NOWHERE:
            hold_score(row_X[column], column, threshold, held_score, held_column, number)
        v = first + 4 * t
        while v < last:
            a, b = load_four(row_X, v), load_four_before(row_X, v + 4 * T, last)
            c, d = load_four_before(row_X, v + 8 * T, last), load_four_before(row_X, v + 12 * T, last)
            hold_four_scores(a, v, last, threshold, held_score, held_column, number)
            hold_four_scores(b, v + 4 * T, last, threshold, held_score, held_column, number)
            hold_four_scores(c, v + 8 * T, last, threshold, held_score, held_column, number)
            hold_four_scores(d, v + 12 * T, last, threshold, held_score, held_column, number)
            v += 16 * T
    cuda.syncthreads()  # all that reach it are there
    return int64(number[0])


@cuda.jit(device=True)
def hold_four_scores(four, v, last, threshold, held_score, held_column, number):
    """Holds those of four scores from column v on that reach the threshold; only the largest is compared at first."""
    if v < last and largest_of_four(four) >= threshold:
        w, x, y, z = four
        hold_score(w, v, threshold, held_score, held_column, number)
        hold_score(x, v + 1, threshold, held_score, held_column, number)
        hold_score(y, v + 2, threshold, held_score, held_column, number)
        hold_score(z, v + 3, threshold, held_score, held_column, number)


@cuda.jit(device=True)
def hold_score(score, column, threshold, held_score, held_column, number):
    """Holds one score and its column if it reaches the threshold and there is room."""
    if score >= threshold:
        i = cuda.atomic.add(number, 0, 1)
        if i < THREADS:
            held_score[i], held_column[i] = score, column


@cuda.jit(device=True)
def write_best_in_order(many, C, held_score, held_column, score_X, column_X, slot):
    """Writes the best C of at most THREADS that are held, from `slot` on; minus infinity in no column where there are
    fewer.
    """
    t = cuda.threadIdx.x
    if t < many:
        before = 0
        for other in range(many):
            before += is_before(held_score[other], held_column[other], held_score[t], held_column[t])
        if before < C:
            score_X[slot + before], column_X[slot + before] = held_score[t], held_column[t]
    if many + t < C:
        score_X[slot + many + t], column_X[slot + many + t] = -INFINITY, NOWHERE


@cuda.jit(device=True)
def pick_from_share_in_passes(row_X, begin, end, C, score_X, column_X, slot, part, place):
    """The best C of a share one after the other, where too many reach any threshold."""
    best, column = INFINITY, -1
    for c in range(C):
        mine, where = -INFINITY, NOWHERE
        for x in range(begin + cuda.threadIdx.x, end, THREADS):
            if goes_first(best, column, row_X[x], x) and goes_first(row_X[x], x, mine, where):
                mine, where = row_X[x], x
        best, column = first_of_block(mine, where, part, place)
        if cuda.threadIdx.x == 0:
            score_X[slot + c], column_X[slot + c] = best, column


@cuda.jit(device=True)
def merge_best_of_shares(b, score_BX, column_BX, best_BC, index_BC):
    """The best C of those that the shares of a sentence handed on."""
    largest = cuda.shared.array(THREADS, score_BX.dtype)
    held_score = cuda.shared.array(THREADS, score_BX.dtype)
    held_column = cuda.shared.array(THREADS, int64)
    number = cuda.shared.array(1, int32)
    part = cuda.shared.array(WARPS, score_BX.dtype)
    place = cuda.shared.array(WARPS, int64)
    t, C = cuda.threadIdx.x, best_BC.shape[1]
    if t == 0:
        number[0] = 0
    mine, has_nan = -INFINITY, False
    for i in range(t, score_BX.shape[1], THREADS):
        mine = max(mine, score_BX[b, i])
        has_nan |= score_BX[b, i] != score_BX[b, i]
    if cuda.syncthreads_or(int32(has_nan)):
        write_nan(best_BC, index_BC, b)
        return
    threshold = threshold_of_block(largest, mine, C)
    if mine >= threshold:
        for i in range(t, score_BX.shape[1], THREADS):
            hold_score(score_BX[b, i], column_BX[b, i], threshold, held_score, held_column, number)
    cuda.syncthreads()  # all that reach it are there
    many = int64(number[0])
    if many <= THREADS:
        write_best_in_order(many, C, held_score, held_column, best_BC[b], index_BC[b], 0)
    else:
        pick_from_entries_in_passes(score_BX[b], column_BX[b], best_BC[b], index_BC[b], part, place)


@cuda.jit(device=True)
def pick_from_entries_in_passes(score_X, column_X, best_C, index_C, part, place):
    """The best C of a sentence's entries one after the other, where too many reach any threshold."""
    best, column = INFINITY, -1
    for c in range(len(best_C)):
        mine, where = -INFINITY, NOWHERE
        for i in range(cuda.threadIdx.x, len(score_X), THREADS):
            score, x = score_X[i], column_X[i]
            if goes_first(best, column, score, x) and goes_first(score, x, mine, where):
                mine, where = score, x
        best, column = first_of_block(mine, where, part, place)
        if cuda.threadIdx.x == 0:
            best_C[c], index_C[c] = best, column
