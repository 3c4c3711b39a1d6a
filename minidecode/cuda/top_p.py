"""The fewest tokens that hold a share p of the probability, without a sort (LightSeq's `ker_topp_sample`, exact here).

A token's place in the order is one whole number: its score's, and then its column's, which parts equal scores. The
first place that stays is found by halving, as the threshold of top_k.py is, with sums of weights for counts.
Weights are whole numbers too, so that it does not matter which thread adds up what: no other way of searching can come
to another answer. (Another library's exponential may: about one weight in 100,000 is another whole number, which parts
the answers where the share p lies in between.) Their exponentials are in float64; the share comes in an array, as
arrays of float64 do where a kernel means double precision.

1. A warp per row, which reads it at each halving, and weighs what is still undecided and below the middle.
2. A block per row, and three passes over it. What reaches the least of the maxima of 128 threads is put side by side
   into shared memory, its weights with it. If all that is below may go, one warp halves on over that alone: each weight
   is computed once for the sum of all, and once more for those few. Otherwise (flat scores, p near 1, no room) it
   halves over the row.

Floor: 8RV bytes at 2.4 TB/s; a launch in a graph, 1.1 us. Predicted 150 us for one row of 50,257 scores: 128 threads
read it five times, and a pass took them 28 us in version 1 of softmax.py. Not measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, int32, int64

from ..device.launch import launch
from ..reference import scores_to_change
from .common.arrays import require_float32
from .common.reduction import THREADS, WARP, WARPS, block_max, warp_max, warp_sum
from .common.rows import INFINITY
from .common.score_order import HIGHEST, LOWEST, ordered_bits_of
from .common.whole_weights import add_warp_sum, weight_in_units

ROOM = 1024  # survivors that a block has room for
COLUMNS = np.int64(2**20)  # more than any vocabulary has
FIRST, END = LOWEST * COLUMNS, HIGHEST * COLUMNS  # of the places of finite scores and minus infinity


def top_p_filter_v1(scores_RV, p, least=1, out=None):
    """Rules out the least likely tokens of each row that together weigh less than 1 - p, by a warp.

    Launches `filter_row_by_weight` in R blocks of 32. Reads 4RV bytes for each of up to 52 halvings, the scores of
    undecided tokens with them, and 16RV besides; writes 4 for each score ruled out.
    """
    scores_RV, *arguments = _kernel_arguments(scores_RV, p, least, out)
    launch(filter_row_by_weight, len(scores_RV), WARP, scores_RV, *arguments)
    return scores_RV


@cuda.jit
def filter_row_by_weight(scores_RV, bits_RV, share_1, least):
    """Finds the first place that stays by halving, weighing the row at each turn, and rules out what is before it.

    Grid R, block 32. Reads 4V bytes for each of up to 52 halvings and 16V besides; writes 4 for each score ruled out.
    """
    r, V = cuda.blockIdx.x, scores_RV.shape[1]
    largest = -INFINITY
    for v in range(cuda.threadIdx.x, V, WARP):
        largest = max(largest, scores_RV[r, v])
    largest = warp_max(largest)
    if largest == -INFINITY:
        return
    total, _ = weight_of_row(scores_RV, bits_RV, r, largest, FIRST, END)
    most = int64(share_1[0] * float64(total))
    first = first_kept_place_of_row(scores_RV, bits_RV, r, largest, most, int64(max(V - least, 0)))
    rule_out_before(scores_RV, bits_RV, r, first)


@cuda.jit(device=True)
def first_kept_place_of_row(scores_RV, bits_RV, r, largest, weight, tokens):
    """The first place that stays where at most `weight`, and `tokens` tokens, may go; for every lane of a warp.

    All places below the middle go if they keep to that; one of low to high is the first that stays.
    """
    low, high, undecided = FIRST, END, int64(scores_RV.shape[1])
    while undecided > 1 and low < high:  # NaN has no place between them, so a row of it never comes down to one
        middle = (low + high + 1) >> 1
        weight_below, tokens_below = weight_of_row(scores_RV, bits_RV, r, largest, low, middle)
        if weight_below <= weight and tokens_below <= tokens:
            low, weight, tokens, undecided = (
                middle,
                weight - weight_below,
                tokens - tokens_below,
                undecided - tokens_below,
            )
        else:
            high, undecided = middle - 1, tokens_below
    return low


@cuda.jit(device=True)
def weight_of_row(scores_RV, bits_RV, r, largest, low, end):
    """(weight, number) of the tokens whose place is from `low` on and before `end`, for every lane of a warp."""
    weight, tokens = int64(0), int64(0)
    for v in range(cuda.threadIdx.x, scores_RV.shape[1], WARP):
        if low <= place_in_order(bits_RV[r, v], v) < end:
            weight += weight_in_units(scores_RV[r, v], largest)
            tokens += 1
    return warp_sum(weight), warp_sum(tokens)


@cuda.jit(device=True)
def place_in_order(bits, v):
    """A token's place in the order: its score's integer, then its column."""
    return ordered_bits_of(bits) * COLUMNS + v


@cuda.jit(device=True)
def rule_out_before(scores_RV, bits_RV, r, first):
    """Minus infinity for the scores of row r whose place is before `first`, by the whole block."""
    for v in range(cuda.threadIdx.x, scores_RV.shape[1], cuda.blockDim.x):
        if place_in_order(bits_RV[r, v], v) < first:
            scores_RV[r, v] = -INFINITY


def top_p_filter(scores_RV, p, least=1, out=None):
    """Rules out the least likely tokens of each row that together weigh less than 1 - p, by a block.

    Version 2: `filter_survivors_by_weight` in R blocks of 128. Reads 20RV bytes and writes 4 for each score ruled out;
    where survivors do not fit, what version 1 reads comes on top.
    """
    scores_RV, *arguments = _kernel_arguments(scores_RV, p, least, out)
    launch(filter_survivors_by_weight, len(scores_RV), THREADS, scores_RV, *arguments)
    return scores_RV


@cuda.jit
def filter_survivors_by_weight(scores_RV, bits_RV, share_1, least):
    """Weighs the row, holds what reaches a rough threshold in shared memory, and one warp halves over that.

    Grid R, block 128; 16 KiB of shared memory for survivors. Reads 20V bytes a row, and writes 4 for each score ruled
    out.
    """
    largest_of = cuda.shared.array(WARPS, float32)
    held_place = cuda.shared.array(ROOM, int64)
    held_weight = cuda.shared.array(ROOM, int64)
    sums = cuda.shared.array(2, int64)  # of all weights, and of those of survivors
    rough = cuda.shared.array(1, int64)
    number = cuda.shared.array(1, int32)
    threshold = cuda.shared.array(1, int64)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, scores_RV.shape[1]
    if t == 0:
        sums[0], sums[1], rough[0], number[0] = 0, 0, HIGHEST, 0
    largest = -INFINITY
    for v in range(t, V, THREADS):
        largest = max(largest, scores_RV[r, v])
    largest = block_max(largest, largest_of)
    if largest == -INFINITY:
        return

    weight, mine = int64(0), LOWEST
    for v in range(t, V, THREADS):
        weight += weight_in_units(scores_RV[r, v], largest)
        mine = max(mine, ordered_bits_of(bits_RV[r, v]))
    add_warp_sum(sums, 0, weight)
    cuda.atomic.min(rough, 0, mine)
    cuda.syncthreads()
    low = rough[0] * COLUMNS

    weight = int64(0)
    for v in range(t, V, THREADS):
        place = place_in_order(bits_RV[r, v], v)
        if place >= low:
            mine = weight_in_units(scores_RV[r, v], largest)
            weight += mine
            i = cuda.atomic.add(number, 0, 1)
            if i < ROOM:
                held_place[i], held_weight[i] = place, mine
    add_warp_sum(sums, 1, weight)
    cuda.syncthreads()  # all survivors are there, and their sum

    if t < WARP:
        many, below = int64(number[0]), sums[0] - sums[1]
        weight, tokens = int64(share_1[0] * float64(sums[0])), int64(max(V - least, 0))
        if many <= ROOM and below <= weight and V - many <= tokens:
            first = first_kept_place_of_held(held_place, held_weight, many, low, weight - below, tokens - (V - many))
        else:
            first = first_kept_place_of_row(scores_RV, bits_RV, r, largest, weight, tokens)
        if t == 0:
            threshold[0] = first
    cuda.syncthreads()
    rule_out_before(scores_RV, bits_RV, r, threshold[0])


@cuda.jit(device=True)
def first_kept_place_of_held(held_place, held_weight, many, low, weight, tokens):
    """The first place that stays among the held tokens, none of which lies before `low`; for every lane of a warp."""
    high, undecided = END, many
    while undecided > 1 and low < high:
        middle = (low + high + 1) >> 1
        weight_below, tokens_below = int64(0), int64(0)
        for i in range(cuda.threadIdx.x, many, WARP):
            if low <= held_place[i] < middle:
                weight_below += held_weight[i]
                tokens_below += 1
        weight_below, tokens_below = warp_sum(weight_below), warp_sum(tokens_below)
        if weight_below <= weight and tokens_below <= tokens:
            low, weight, tokens, undecided = (
                middle,
                weight - weight_below,
                tokens - tokens_below,
                undecided - tokens_below,
            )
        else:
            high, undecided = middle - 1, tokens_below
    return low


def _kernel_arguments(scores_RV, p, least, out):
    """What the kernels take, where the scores lie."""
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    return scores_RV, scores_RV.view(np.int32), np.full_like(scores_RV, 1 - p, shape=1, dtype=np.float64), least


# What each kernel is compiled and type-checked for, without a GPU.
_TYPES = (float32[:, ::1], int32[:, ::1], float64[::1], int64)
SIGNATURES = {filter_row_by_weight: [_TYPES], filter_survivors_by_weight: [_TYPES]}
# 64-bit products, and exponentials or logarithms in float64: a T4's SM holds 1,024 threads, of 64 registers.
REGISTERS = {filter_row_by_weight: 64, filter_survivors_by_weight: 64}
