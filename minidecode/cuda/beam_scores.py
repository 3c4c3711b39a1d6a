"""Log-probabilities become scores of whole texts.

1. A thread per score. Each divides to find its row, and loads the row's running score.
2. The rows are the grid's first axis: a thread loads the running score once, for the four columns that it takes.
"""

from __future__ import annotations

from numba import cuda, float32

from ..runtime.launch import launch
from .temperature import EACH, THREADS, per_row, to_change


def add_beam_scores_v1(scores_RV, running_R, out=None):
    scores_RV = to_change(scores_RV, out)
    launch(add_to_each, -(-scores_RV.size // THREADS), THREADS, scores_RV, running_R)
    return scores_RV


@cuda.jit
def add_to_each(scores_RV, running_R):
    i = cuda.grid(1)
    if i < scores_RV.size:
        r = i // scores_RV.shape[1]
        scores_RV[r, i - r * scores_RV.shape[1]] += running_R[r]


def add_beam_scores(scores_RV, running_R, out=None):
    """Version 2."""
    scores_RV = to_change(scores_RV, out)
    launch(add_to_row, per_row(scores_RV), THREADS, scores_RV, running_R)
    return scores_RV


@cuda.jit
def add_to_row(scores_RV, running_R):
    r, first = cuda.blockIdx.x, cuda.blockIdx.y * THREADS * EACH + cuda.threadIdx.x
    running = running_R[r]
    for k in range(EACH):
        v = first + k * THREADS
        if v < scores_RV.shape[1]:
            scores_RV[r, v] += running


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {kernel: [(float32[:, ::1], float32[::1])] for kernel in (add_to_each, add_to_row)}
