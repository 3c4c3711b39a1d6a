"""A step's candidates straight from the logits: HARS with its log-sum-exp (LightSeq, section 2.2).

1. Two kernels: a block per row reads it twice, for its maximum and for its sum of exponentials; a block per sentence
   makes C passes over all logits of its beams, and computes each score anew wherever it meets it.
2. Three kernels, two passes over the logits. A block per row takes maximum, sum and rough threshold in one pass: the
   running maximum of each thread, onto which its sum is scaled, is also the maximum of its share. Retrieve: logits that
   reach their row's threshold (>=). Rerank: C passes over those of all beams of a sentence.
3. One pass over the logits, in slices, so that a few rows fill the GPU too: a block stages a slice in shared memory and
   hands on its maximum, its sum, and what reaches its own threshold. The second kernel puts the sums together.
4. A block's share of a row by 128-bit loads, and its best C in order, as in version 4 of candidates.py: its running
   maxima are the groups. The second kernel makes scores of them and ranks those, a thread for each. Floor: R*V*4 bytes
   over the bandwidth, and two kernels. Predicted 70 % on 1 GB and 3.8, 4.5 and 9 us for 1, 8 and 32 sentences of 4
   beams in a graph; measured (H100, 2026-11-26) 87 % and 17.4, 18.8 and 22.2 us, with branches where ranks are counted.
   Without them: 9, 11 and 14 us predicted; measured (H100, 2026-11-26) 92 % and 11.3, 13.8 and 17.6 us. Version 3 took
   53.1, 69.5 and 136.2 us. Since then the second kernel also divides columns into beams and tokens, which was a launch
   of its own: by the rules 0.5 us more here and 1.6 us less behind it, not measured.

No version writes a log-probability that is not returned. What exp(logit - largest) sums to is positive and finite
wherever a row has probabilities: log_of says NaN for every other row. Where more survive than there is room for, the
passes go over everything that they were to be picked from, as in candidates.py.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int32, int64

from ..device.launch import launch
from ..reference import scratch
from ..reference.hars import result_arrays
from .common.arrays import filled_scratch, require_float32
from .common.best_columns import (
    hold_scores_reaching,
    keep_scores_reaching,
    merge_best_of_shares,
    pick_from_share_in_passes,
    write_best_in_order,
    write_nan,
)
from .common.log_sum import add_compensated, log_of_sum, max_and_sum_with_next, rescale_sum
from .common.ranking import (
    first_of_block,
    goes_first,
    kth_largest_of_block,
    least_maximum_of_groups,
    threshold_of_block,
)
from .common.reduction import THREADS, WARPS, block_max, block_sum
from .common.rows import (
    INFINITY,
    LOWEST,
    NOWHERE,
    bounds_of_share,
    max_and_sum_of_block,
    max_and_sum_of_row,
    max_and_sum_of_share,
    split_into_shares,
)

ROOM = 1024  # survivors of a sentence that version 2 has room for
SLICE = 2048  # logits that a block of version 3 stages


def hars_candidates_v1(logits_RV, base_BW, C, out=None, *, workspace=None):
    """The best C continuations of each sentence from its beams' logits, one pass over all of them for each.

    Launches `find_log_sums` in R blocks and `pick_from_beams_in_passes` in B, of 128. Reads 8RV + 16RVC bytes and
    writes 28BC.
    """
    out = result_arrays(require_float32(logits_RV), len(base_BW), C, out)
    largest_R, log_sum_R = (scratch(workspace, len(logits_RV), logits_RV) for _ in range(2))
    launch(find_log_sums, len(logits_RV), THREADS, logits_RV, largest_R, log_sum_R)
    launch(pick_from_beams_in_passes, len(base_BW), THREADS, logits_RV, base_BW, largest_R, log_sum_R, *out)
    return out


@cuda.jit
def find_log_sums(logits_RV, largest_R, log_sum_R):
    """A row's largest logit, then the logarithm of its sum of exponentials.

    Grid R, block 128. Reads 8V bytes a row and writes 8.
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
    total = block_sum(total, part)
    if t == 0:
        largest_R[r], log_sum_R[r] = largest, log_of_sum(total, largest)


@cuda.jit
def pick_from_beams_in_passes(logits_RV, base_BW, largest_R, log_sum_R, best_BC, parent_BC, token_BC):
    """Finds the best score that comes after the last one found, C times, over all beams of a sentence.

    Grid B, block 128. Reads 16WVC bytes a sentence, a logit and three numbers of its beam for each score, and writes
    28C.
    """
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    W, V = base_BW.shape[1], logits_RV.shape[1]
    for w in range(W):
        if log_sum_R[b * W + w] != log_sum_R[b * W + w]:
            write_nan(best_BC, token_BC, b)
            split_columns(b, V, parent_BC, token_BC)
            return
    best, column = INFINITY, -1
    for c in range(best_BC.shape[1]):
        mine, where = -INFINITY, NOWHERE
        for x in range(t, W * V, THREADS):
            w = x // V
            r = b * W + w
            score = logits_RV[r, x - w * V] - largest_R[r] - log_sum_R[r] + base_BW[b, w]
            if goes_first(best, column, score, x) and goes_first(score, x, mine, where):
                mine, where = score, x
        best, column = first_of_block(mine, where, part, place)
        if t == 0:
            best_BC[b, c], token_BC[b, c] = best, column
    split_columns(b, V, parent_BC, token_BC)


@cuda.jit(device=True)
def split_columns(b, V, parent_BC, token_BC):
    """Divides the columns w*V + v of a sentence, which lie in token_BC, into beams w and tokens v, by the block."""
    cuda.syncthreads()  # all columns are there
    for c in range(cuda.threadIdx.x, parent_BC.shape[1], THREADS):
        column = token_BC[b, c]
        parent = column // V
        parent_BC[b, c], token_BC[b, c] = parent, column - parent * V


def hars_candidates_v2(logits_RV, base_BW, C, out=None):
    """The best C continuations of each sentence from its beams' logits: threshold, retrieve, rerank.

    Launches `find_rough_thresholds` in R blocks, `retrieve_from_beams` as (R, ceil(V / 128)), `rerank_beams` in B, of
    128. Reads 12RV bytes, thresholds included, and 16C for each survivor. More candidates or beams than a block has
    threads take version 1.
    """
    (B, W), (R, V) = base_BW.shape, logits_RV.shape
    if max(C, W) > THREADS:
        return hars_candidates_v1(logits_RV, base_BW, C, out)
    out = result_arrays(require_float32(logits_RV), B, C, out)
    threshold_R = np.empty_like(logits_RV, shape=R)
    largest_RX, total_RX, survivor_BX, count_B = allocate_survivors(logits_RV, B, 1, ROOM)
    launch(find_rough_thresholds, R, THREADS, logits_RV, C, threshold_R, largest_RX, total_RX)
    launch(retrieve_from_beams, (R, -(-V // THREADS)), THREADS, logits_RV, W, threshold_R, survivor_BX, count_B)
    launch(rerank_beams, B, THREADS, logits_RV, base_BW, largest_RX, total_RX, survivor_BX, count_B, *out)
    return out


@cuda.jit
def find_rough_thresholds(logits_RV, C, threshold_R, largest_RX, total_RX):
    """A row's threshold, maximum and sum of exponentials in one pass; the row is one slice, X = 1.

    Grid R, block 128. Reads 4V bytes a row and writes 12.
    """
    maxima = cuda.shared.array(THREADS, float32)
    part = cuda.shared.array(WARPS, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    mine, total, lost = -INFINITY, float32(0), float32(0)
    for v in range(t, logits_RV.shape[1], THREADS):
        mine, total, lost = max_and_sum_with_next(mine, total, lost, logits_RV[r, v])
    largest = block_max(mine, part)
    total = block_sum(rescale_sum(total, mine, largest), part)
    threshold = least_maximum_of_groups(maxima, mine, C)
    if t == 0:
        threshold_R[r], largest_RX[r, 0], total_RX[r, 0] = threshold, largest, total


@cuda.jit
def retrieve_from_beams(logits_RV, W, threshold_R, survivor_BX, count_B):
    """Writes the columns w*V + v of the sentence whose logit reaches the row's threshold side by side.

    Grid (R, ceil(V / 128)), block 128. A thread reads 8 bytes, and writes 8 of a column that survives.
    """
    r, v = cuda.blockIdx.x, cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    if v < logits_RV.shape[1] and logits_RV[r, v] >= threshold_R[r]:
        b = r // W
        place = cuda.atomic.add(count_B, b, 1)
        if place < survivor_BX.shape[1]:
            survivor_BX[b, place] = (r - b * W) * logits_RV.shape[1] + v


@cuda.jit
def rerank_beams(logits_RV, base_BW, largest_RX, total_RX, survivor_BX, count_B, best_BC, parent_BC, token_BC):
    """The best C among the survivors of a sentence; thread w joins the sums of beam w's slices first.

    Grid B, block 128. Reads 16C bytes a survivor and 16 a slice of each beam, and writes 28C a sentence.
    """
    largest_W = cuda.shared.array(THREADS, float32)
    log_sum_W = cuda.shared.array(THREADS, float32)
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    W, V = base_BW.shape[1], logits_RV.shape[1]
    if t < W:
        largest, total = -INFINITY, float32(0)
        for k in range(largest_RX.shape[1]):
            if largest_RX[b * W + t, k] > largest:
                largest = largest_RX[b * W + t, k]
        for k in range(largest_RX.shape[1]):
            total += rescale_sum(total_RX[b * W + t, k], largest_RX[b * W + t, k], largest)
        largest_W[t], log_sum_W[t] = largest, log_of_sum(total, largest)
    cuda.syncthreads()
    for w in range(W):
        if log_sum_W[w] != log_sum_W[w]:
            write_nan(best_BC, token_BC, b)
            split_columns(b, V, parent_BC, token_BC)
            return
    fits = count_B[b] <= survivor_BX.shape[1]
    many = count_B[b] if fits else W * V
    best, column = INFINITY, -1
    for c in range(best_BC.shape[1]):
        mine, where = -INFINITY, NOWHERE
        for i in range(t, many, THREADS):
            x = survivor_BX[b, i] if fits else i
            w = x // V
            score = logits_RV[b * W + w, x - w * V] - largest_W[w] - log_sum_W[w] + base_BW[b, w]
            if goes_first(best, column, score, x) and goes_first(score, x, mine, where):
                mine, where = score, x
        best, column = first_of_block(mine, where, part, place)
        if t == 0:
            best_BC[b, c], token_BC[b, c] = best, column
    split_columns(b, V, parent_BC, token_BC)


def hars_candidates_v3(logits_RV, base_BW, C, out=None, *, workspace=None):
    """The best C continuations of each sentence from its beams' logits, in one pass over slices.

    Launches `retrieve_from_slices` as (R, ceil(V / 2048)) blocks and `rerank_beams` in B, of 128. Reads 4RV bytes, and
    16C for each survivor. More candidates or beams than a block has threads take version 1, here and below.
    """
    (B, W), (R, V) = base_BW.shape, logits_RV.shape
    if max(C, W) > THREADS:
        return hars_candidates_v1(logits_RV, base_BW, C, out, workspace=workspace)
    slices = -(-V // SLICE)
    out = result_arrays(require_float32(logits_RV), B, C, out)
    survivors = allocate_survivors(logits_RV, B, slices, W * slices * THREADS, workspace)
    launch(retrieve_from_slices, (R, slices), THREADS, logits_RV, W, C, *survivors)
    launch(rerank_beams, B, THREADS, logits_RV, base_BW, *survivors, *out)
    return out


@cuda.jit
def retrieve_from_slices(logits_RV, W, C, largest_RX, total_RX, survivor_BX, count_B):
    """A slice's maximum, sum of exponentials and columns that reach its threshold.

    Grid (R, ceil(V / 2048)), block 128. Reads 8 KiB a block, and writes 8 bytes and 8 for each column that survives.
    """
    tile = cuda.shared.array(SLICE, float32)
    maxima = cuda.shared.array(THREADS, float32)
    kept = cuda.shared.array(THREADS, int64)
    number = cuda.shared.array(1, int32)
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, t, first = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockIdx.y * SLICE
    V = logits_RV.shape[1]
    width = min(SLICE, V - first)
    mine, total, lost = -INFINITY, float32(0), float32(0)
    for k in range(t, width, THREADS):
        tile[k] = logits_RV[r, first + k]
        mine, total, lost = max_and_sum_with_next(mine, total, lost, tile[k])
    largest = block_max(mine, part)
    total = block_sum(rescale_sum(total, mine, largest), part)
    threshold = kth_largest_of_block(maxima, mine, C)
    many = keep_scores_reaching(tile, width, threshold, C, kept, number, part, place)
    b = r // W
    if t == 0:
        largest_RX[r, cuda.blockIdx.y], total_RX[r, cuda.blockIdx.y] = largest, total
        number[0] = cuda.atomic.add(count_B, b, many)
    cuda.syncthreads()
    if t < many:
        survivor_BX[b, number[0] + t] = (r - b * W) * V + first + kept[t]


def hars_candidates(logits_RV, base_BW, C, out=None, *, workspace=None):
    """The best C continuations of each sentence from its beams' logits, by 128-bit loads and ranks.

    Version 4: `retrieve_from_share` as (R, shares) blocks and `merge_beams` in B, of 128. Reads 4RV bytes, once more
    what the threads that reach a threshold had read, and 12C a share; writes 12C + 8 a share and 28C a sentence.
    """
    (B, W), (R, V) = base_BW.shape, logits_RV.shape
    if max(C, W) > THREADS:
        return hars_candidates_v1(logits_RV, base_BW, C, out, workspace=workspace)
    shares, columns = split_into_shares(R, V, most=16)
    out = result_arrays(require_float32(logits_RV), B, C, out)
    sums = [scratch(workspace, (R, shares), logits_RV) for _ in range(2)]
    score_RX = scratch(workspace, (R, shares * C), logits_RV)
    column_RX = scratch(workspace, (R, shares * C), logits_RV, np.int64)
    launch(retrieve_from_share, (R, shares), THREADS, logits_RV, columns, C, *sums, score_RX, column_RX)
    score_BX, column_BX = score_RX.reshape(B, W * shares * C), column_RX.reshape(B, W * shares * C)
    launch(merge_beams, B, THREADS, base_BW, logits_RV.shape[1], *sums, score_BX, column_BX, *out)
    return out


@cuda.jit
def retrieve_from_share(logits_RV, columns, C, largest_RX, total_RX, score_RX, column_RX):
    """The maximum and the sum of a block's share, and its best C logits in order, with their tokens.

    Grid (R, shares), block 128. Reads 4 bytes a column of the share, and writes 12C + 8.
    """
    largest_X = cuda.shared.array(WARPS, float32)
    total_X = cuda.shared.array(WARPS, float32)
    maxima = cuda.shared.array(THREADS, float32)
    held_score = cuda.shared.array(THREADS, float32)
    held_column = cuda.shared.array(THREADS, int64)
    number = cuda.shared.array(1, int32)
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, share = cuda.blockIdx.x, cuda.blockIdx.y
    row_V, slot = logits_RV[r], share * C
    begin, first, last, end = bounds_of_share(row_V, columns)
    mine, total = max_and_sum_of_share(row_V, begin, first, last, end)
    largest, total = max_and_sum_of_block(mine, total, largest_X, total_X)
    if cuda.threadIdx.x == 0:
        largest_RX[r, share], total_RX[r, share] = largest, total
    if mine == LOWEST:  # where it began: this thread may have seen minus infinity alone
        mine = -INFINITY
    threshold = threshold_of_block(maxima, mine, C)
    many = hold_scores_reaching(row_V, begin, first, last, end, mine, threshold, held_score, held_column, number)
    if many <= THREADS:
        write_best_in_order(many, C, held_score, held_column, score_RX[r], column_RX[r], slot)
    else:
        pick_from_share_in_passes(row_V, begin, end, C, score_RX[r], column_RX[r], slot, part, place)


@cuda.jit
def merge_beams(base_BW, V, largest_RX, total_RX, score_BX, column_BX, best_BC, parent_BC, token_BC):
    """Turns logits and tokens into scores and columns of the sentence, in place, and takes the best C of those.

    Grid B, block 128. Reads 24 bytes and writes 12 for each entry of the shares; writes 28C a sentence.
    """
    largest_W = cuda.shared.array(THREADS, float32)
    log_sum_W = cuda.shared.array(THREADS, float32)
    b, t, W = cuda.blockIdx.x, cuda.threadIdx.x, base_BW.shape[1]
    for w in range(t // 32, W, WARPS):
        largest, total = max_and_sum_of_row(b * W + w, largest_RX, total_RX)
        if t % 32 == 0:
            largest_W[w], log_sum_W[w] = largest, log_of_sum(total, largest)
    cuda.syncthreads()
    each = largest_RX.shape[1] * best_BC.shape[1]  # candidates of a beam
    for w in range(W):
        for i in range(w * each + t, (w + 1) * each, THREADS):
            score_BX[b, i] = score_BX[b, i] - largest_W[w] - log_sum_W[w] + base_BW[b, w]
            if column_BX[b, i] != NOWHERE:
                column_BX[b, i] += w * V
    cuda.syncthreads()
    merge_best_of_shares(b, score_BX, column_BX, best_BC, token_BC)
    split_columns(b, V, parent_BC, token_BC)


def allocate_survivors(logits_RV, B, slices, columns, workspace=None):
    """(maximum and sum of each slice of a row, columns of survivors, how many there are), where the logits lie."""
    largest_RX, total_RX = (scratch(workspace, (len(logits_RV), slices), logits_RV) for _ in range(2))
    survivor_BX = scratch(workspace, (B, columns), logits_RV, np.int64)
    return largest_RX, total_RX, survivor_BX, filled_scratch(workspace, B, logits_RV, 0, np.int32)


# What each kernel is compiled and type-checked for, without a GPU.
_ROWS, _ROW, _COLUMNS, _COUNTS = float32[:, ::1], float32[::1], int64[:, ::1], int32[::1]
_SLICES = (_ROWS, _ROWS, _COLUMNS, _COUNTS)
SIGNATURES = {
    find_log_sums: [(_ROWS, _ROW, _ROW)],
    pick_from_beams_in_passes: [(_ROWS, _ROWS, _ROW, _ROW, _ROWS, _COLUMNS, _COLUMNS)],
    find_rough_thresholds: [(_ROWS, int64, _ROW, _ROWS, _ROWS)],
    retrieve_from_beams: [(_ROWS, int64, _ROW, _COLUMNS, _COUNTS)],
    rerank_beams: [(_ROWS, _ROWS, *_SLICES, _ROWS, _COLUMNS, _COLUMNS)],
    retrieve_from_slices: [(_ROWS, int64, int64, *_SLICES)],
    retrieve_from_share: [(_ROWS, int64, int64, _ROWS, _ROWS, _ROWS, _COLUMNS)],
    merge_beams: [(_ROWS, int64, _ROWS, _ROWS, _ROWS, _COLUMNS, _ROWS, _COLUMNS, _COLUMNS)],
}
REGISTERS = {  # as in candidates.py
    pick_from_beams_in_passes: 64,
    rerank_beams: 64,
    retrieve_from_slices: 64,
    retrieve_from_share: 64,
    merge_beams: 80,
}
