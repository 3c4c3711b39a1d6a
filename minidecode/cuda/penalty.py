"""Repetition penalties: the scores of tokens that a text holds, or its source, made less.

1. A block per row. First its threads read the scores of all tokens and keep what becomes of them, then they write it.
   A token that stands there twice is written twice, the same each time: a race of equal values, which changes nothing.
   So no thread asks whether a token came before, which would take the square of a text's length.

Floor: a launch in a graph, 1.1 us. Predicted 3.6 us: list, length, token and score wait one for the other, and tokens
are read again behind a barrier. Not measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..reference import scores_to_change, scratch
from .common.arrays import require_float32

THREADS = 128


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None, *, workspace=None):
    """Divides or multiplies by the penalty the scores of the tokens in each row's list.

    Launches `penalize_row` in R blocks of 128. Reads 24 bytes a token and writes 8, half of each through held_RM.
    """
    scores_RV = scores_to_change(require_float32(scores_RV), out)
    held_RM = scratch(workspace, (len(scores_RV), tokens_XM.shape[1]), scores_RV)
    given = tokens_XM, length_X, list_R, np.float32(penalty), held_RM
    launch(penalize_row, len(scores_RV), THREADS, scores_RV, *given)
    return scores_RV


@cuda.jit
def penalize_row(scores_RV, tokens_XM, length_X, list_R, penalty, held_RM):
    """Reads the scores of a row's tokens and keeps what becomes of them, waits, and writes it.

    Grid R, block 128. Reads 24 bytes a token and writes 8.
    """
    r, V = cuda.blockIdx.x, scores_RV.shape[1]
    x = list_R[r]
    for m in range(cuda.threadIdx.x, length_X[x], THREADS):
        token = tokens_XM[x, m]
        if token < V:
            score = scores_RV[r, token]
            held_RM[r, m] = score * penalty if score < 0 else score / penalty
    cuda.syncthreads()  # every score has been read
    for m in range(cuda.threadIdx.x, length_X[x], THREADS):
        token = tokens_XM[x, m]
        if token < V:
            scores_RV[r, token] = held_RM[r, m]


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {penalize_row: [(float32[:, ::1], int64[:, ::1], int64[::1], int64[::1], float32, float32[:, ::1])]}
