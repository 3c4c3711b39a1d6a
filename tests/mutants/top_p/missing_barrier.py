"""puts weights side by side in shared memory and sums them without a barrier."""

import numpy as np
from numba import cuda, int64

from minidecode.device.launch import launch
from minidecode.reference.top_p import most_weight_out, whole_weights


def top_p_filter(scores_RV, p, least, out=None):
    weight_RV = whole_weights(scores_RV)
    most_R = most_weight_out(weight_RV.sum(axis=1), p)
    launch(sum_without_a_barrier, len(scores_RV), 32, scores_RV.copy(), weight_RV, most_R, least, scores_RV)
    return scores_RV


@cuda.jit
def sum_without_a_barrier(scores_RV, weight_RV, most_R, least, filtered_RV):
    held = cuda.shared.array(2048, int64)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, scores_RV.shape[1]
    for v in range(t, V, 32):
        held[v] = weight_RV[r, v]
    for v in range(t, V, 32):
        weight, behind = held[v], 0
        for w in range(V):
            if scores_RV[r, w] < scores_RV[r, v] or (scores_RV[r, w] == scores_RV[r, v] and w < v):
                weight += held[w]
            elif w != v:
                behind += 1
        if weight <= most_R[r] and behind >= least:
            filtered_RV[r, v] = -np.inf
