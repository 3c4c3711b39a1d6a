"""launches one thread more than there are rows, without a guard: it writes where no row is."""

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    launch(thread_per_row_unguarded, 1, len(length_R) + 1, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def thread_per_row_unguarded(scores_RV, tokens_RM, length_R, n):
    r = cuda.threadIdx.x
    tail = length_R[r] - n + 1
    for start in range(tail):
        same = 0
        while same < n - 1 and tokens_RM[r, start + same] == tokens_RM[r, tail + same]:
            same += 1
        if same == n - 1:
            scores_RV[r, tokens_RM[r, start + n - 1]] = float32(-np.inf)
