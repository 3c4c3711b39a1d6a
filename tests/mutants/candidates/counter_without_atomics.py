"""counts survivors by reading and writing a counter in two steps: two threads may take one place."""

import numpy as np
from numba import cuda, int64

from minidecode.device.launch import launch
from minidecode.reference.candidates import candidates_in_columns, group_maxima


def top_candidates(scores_BX, C, out=None):
    B, X = scores_BX.shape
    threshold_B = np.array([group_maxima(scores_X, C).min() for scores_X in scores_BX], scores_BX.dtype)
    survivor_BX, count_B = np.zeros((B, X), np.int64), np.zeros(B, np.int64)
    launch(retrieve_uncounted, B, 64, scores_BX, threshold_B, survivor_BX, count_B)
    index_BC = np.zeros((B, C), np.int64)
    for b, scores_X in enumerate(scores_BX):
        kept_X = np.sort(survivor_BX[b, : count_B[b]])
        order_X = kept_X[np.argsort(-scores_X[kept_X], kind="stable")][:C]
        index_BC[b, : len(order_X)] = order_X
    return candidates_in_columns(scores_BX, index_BC, np.isnan(scores_BX).any(axis=1), out)


@cuda.jit
def retrieve_uncounted(scores_BX, threshold_B, survivor_BX, count_B):
    free = cuda.shared.array(1, int64)
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        free[0] = 0
    cuda.syncthreads()
    for x in range(cuda.threadIdx.x, scores_BX.shape[1], cuda.blockDim.x):
        if not scores_BX[b, x] < threshold_B[b]:
            place = free[0]
            free[0] = place + 1
            survivor_BX[b, place] = x
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        count_B[b] = free[0]
