"""Biases of tokens that would complete a sequence.

1. A thread per sequence and row. Sequences with the same last token are neighbours: the thread of the first adds up the
   biases of those that fit, in their order, and is the only one that touches that token's score. So there are no
   atomics, and a sum is the same each time. A list of one banned token (EOS, until a text may end) is a warp that has
   one thread with work: it takes what a launch in a graph takes, about a microsecond.

Floor: a launch in a graph, 1.1 us. Predicted 3.6 us for a list of banned tokens: list, token, the one before it, bias
and score wait one for the other. Not measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, int64

from ..device.launch import launch
from ..reference import scores_to_change
from .common.arrays import require_float32

THREADS = 128
RULED_OUT = float32(-np.inf)


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    """Adds bias_XX to the scores of tokens that would complete a sequence of ids_XXX, a thread per sequence and row.

    Launches `add_group_bias` as (R, ceil(S / threads)) blocks of at most 128, for S sequences of at most L tokens. A
    thread reads 16 bytes; the first of a group of equal last tokens reads at most 16L + 8 for each of them, and writes
    4.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    threads = min(THREADS, -(-ids_XXX.shape[1] // 32) * 32)
    grid = len(scores_RV), -(-ids_XXX.shape[1] // threads)
    launch(add_group_bias, grid, threads, scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX)
    return scores_RV


@cuda.jit
def add_group_bias(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX):
    """Sums the biases of a group of sequences that end in the same token, and adds them to its score.

    Grid (R, ceil(S / blockDim.x)), block at most 128. A thread reads 16 bytes; that of a group's first sequence reads
    the group's tokens and biases too, and writes 4.
    """
    r, s = cuda.blockIdx.x, cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    x, end = list_R[r], ids_XXX.shape[2] - 1
    if x < 0 or s >= ids_XXX.shape[1]:
        return
    token = ids_XXX[x, s, end]
    if token < 0 or token >= scores_RV.shape[1] or (s > 0 and ids_XXX[x, s - 1, end] == token):
        return  # what fills the list up, what has no score, and what the first of its group adds
    gain, is_due = float32(0), False
    while s < ids_XXX.shape[1] and ids_XXX[x, s, end] == token:
        if ends_with_sequence_start(tokens_RM, r, length_R[r], ids_XXX, x, s):
            gain += float32(bias_XX[x, s])
            is_due = True
        s += 1
    if is_due:
        scores_RV[r, token] = RULED_OUT if gain == RULED_OUT else scores_RV[r, token] + gain


@cuda.jit(device=True)
def ends_with_sequence_start(tokens_RM, r, length, ids_XXX, x, s):
    """Whether the text ends with all tokens of the sequence but its last; one below 0 is none."""
    end = ids_XXX.shape[2] - 1
    for k in range(end):
        wanted, at = ids_XXX[x, s, k], length - end + k
        if wanted >= 0 and (at < 0 or tokens_RM[r, at] != wanted):
            return False
    return True


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {
    add_group_bias: [(float32[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, :, ::1], float64[:, ::1])]
}
