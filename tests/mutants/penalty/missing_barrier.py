"""writes scores before all threads have read theirs: a token of two threads may be penalised twice."""

import numpy as np
from numba import cuda

from minidecode.device.launch import launch


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    launch(without_a_barrier, len(scores_RV), 64, scores_RV, tokens_XM, length_X, list_R, np.float32(penalty))
    return scores_RV


@cuda.jit
def without_a_barrier(scores_RV, tokens_XM, length_X, list_R, penalty):
    r = cuda.blockIdx.x
    x = list_R[r]
    for m in range(cuda.threadIdx.x, length_X[x], cuda.blockDim.x):
        token = tokens_XM[x, m]
        if token < scores_RV.shape[1]:
            score = scores_RV[r, token]
            scores_RV[r, token] = score * penalty if score < 0 else score / penalty
