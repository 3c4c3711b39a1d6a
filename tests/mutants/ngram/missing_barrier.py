"""reads the tile in shared memory before all threads have written their part of it: no barrier between."""

import numpy as np
from numba import cuda, float32, int64

from minidecode.device.launch import launch


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    launch(staged_without_a_barrier, len(length_R), 64, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def staged_without_a_barrier(scores_RV, tokens_RM, length_R, n):
    row = cuda.shared.array(2048, int64)
    r = cuda.blockIdx.x
    for k in range(cuda.threadIdx.x, length_R[r], cuda.blockDim.x):
        row[k] = tokens_RM[r, k]
    tail = length_R[r] - n + 1
    for start in range(cuda.threadIdx.x, tail, cuda.blockDim.x):
        same = 0
        while same < n - 1 and row[start + same] == row[tail + same]:
            same += 1
        if same == n - 1:
            scores_RV[r, row[start + n - 1]] = float32(-np.inf)
