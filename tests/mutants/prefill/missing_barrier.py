"""reads the largest score before every thread has put in its own: no barrier between."""

import math

import numpy as np
from numba import cuda, float32, int64

from minidecode.cuda.prefill import keys_seen_by_row, score_sentences, sum_weighted_values
from minidecode.device.launch import launch


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    rows, scores_RHM = score_sentences(q_RHK, k_XGK, q_offsets_X, k_offsets_X)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(k_XGK)
    launch(softmax_without_a_barrier, scores_RHM.shape[:2], 64, scores_RHM, np.float32(scale), *bounds)
    return sum_weighted_values(scores_RHM, v_XGU, rows, out)


@cuda.jit
def softmax_without_a_barrier(scores_RHM, scale, q_offsets_X, k_offsets_X, causal, window):
    best = cuda.shared.array(64, float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    begin, end, M = keys_seen_by_row(r, q_offsets_X, k_offsets_X, causal, window)
    scores_M = scores_RHM[r, cuda.blockIdx.y]
    best[t] = float32(-np.inf)
    for m in range(begin + t, end, 64):
        best[t] = max(best[t], scale * scores_M[m])
    top, total = float32(-np.inf), float32(0)
    for other in range(64):
        top = max(top, best[other])
    for m in range(begin, end):
        total += math.exp(scale * scores_M[m] - top)
    cuda.syncthreads()
    for m in range(t, int64(M), 64):
        scores_M[m] = math.exp(scale * scores_M[m] - top) / total if begin <= m < end else float32(0)
