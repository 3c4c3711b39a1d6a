"""looks at the first 128 starts alone, one per thread: longer histories are not searched to the end."""

import numpy as np
from numba import cuda, float32

from minidecode.device.launch import launch


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    launch(thread_per_start, len(length_R), 128, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def thread_per_start(scores_RV, tokens_RM, length_R, n):
    r, start = cuda.blockIdx.x, cuda.threadIdx.x
    tail = length_R[r] - n + 1
    if start >= tail:
        return
    for k in range(n - 1):
        if tokens_RM[r, start + k] != tokens_RM[r, tail + k]:
            return
    scores_RV[r, tokens_RM[r, start + n - 1]] = float32(-np.inf)
