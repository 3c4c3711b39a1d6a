"""Log-probabilities of all tokens of a row, or of one.

1. A block per row, in three passes: the largest logit, the sum of exponentials, the scores.
2. Two passes: each thread scales its sum anew when its largest logit grows, as in hars.py, so that the first pass finds
   both. The second comes from the cache, where the row fits into it.

What exp(logit - largest) sums to is positive and finite wherever a row has probabilities: log_of says NaN for every
other row, and what NaN is taken from is NaN.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..ops import FINE, NOT_A_NUMBER
from ..reference.softmax import results
from ..runtime.launch import launch
from . import in_float32
from .candidates import INFINITY, THREADS, WARPS
from .common.reduction import block_max, block_sum
from .hars import log_of, rescaled, with_one_more


def log_softmax_v1(logits_RV, out=None):
    return launched(scores_in_three_passes, logits_RV, out)


def launched(kernel, logits_RV, out):
    """A block per row."""
    out = results(in_float32(logits_RV), out)
    launch(kernel, len(logits_RV), THREADS, logits_RV, *out)
    return out


@cuda.jit
def scores_in_three_passes(logits_RV, scores_RV, trouble_R):
    part = cuda.shared.array(WARPS, float32)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, logits_RV.shape[1]
    largest = -INFINITY
    for v in range(t, V, THREADS):
        if logits_RV[r, v] > largest:
            largest = logits_RV[r, v]
    largest, total = block_max(largest, part), float32(0)
    for v in range(t, V, THREADS):
        total += math.exp(logits_RV[r, v] - largest)
    write(r, logits_RV, largest, block_sum(total, part), scores_RV, trouble_R)


@cuda.jit(device=True)
def write(r, logits_RV, largest, total, scores_RV, trouble_R):
    """The row's results, by the whole block."""
    log_sum, t = log_of(total, largest), cuda.threadIdx.x
    for v in range(t, logits_RV.shape[1], THREADS):
        scores_RV[r, v] = logits_RV[r, v] - largest - log_sum
    if t == 0:
        trouble_R[r] = FINE if log_sum == log_sum else NOT_A_NUMBER


def log_softmax(logits_RV, out=None):
    """Version 2."""
    return launched(scores_in_two_passes, logits_RV, out)


@cuda.jit
def scores_in_two_passes(logits_RV, scores_RV, trouble_R):
    part = cuda.shared.array(WARPS, float32)
    r = cuda.blockIdx.x
    largest, total = largest_and_sum(r, logits_RV, part)
    write(r, logits_RV, largest, total, scores_RV, trouble_R)


@cuda.jit(device=True)
def largest_and_sum(r, logits_RV, part):
    """The row's largest logit and the sum of exp(logit - largest), in one pass, for every thread of the block."""
    mine, total = -INFINITY, float32(0)
    for v in range(cuda.threadIdx.x, logits_RV.shape[1], THREADS):
        mine, total = with_one_more(mine, total, logits_RV[r, v])
    largest = block_max(mine, part)
    return largest, block_sum(rescaled(total, mine, largest), part)


def token_logprobs(logits_RV, token_R, out=None):
    """A block per row, in one pass: nothing is written but one number a row."""
    score_R = np.empty_like(in_float32(logits_RV), shape=len(logits_RV)) if out is None else out
    launch(score_in_one_pass, len(logits_RV), THREADS, logits_RV, token_R, score_R)
    return score_R


@cuda.jit
def score_in_one_pass(logits_RV, token_R, score_R):
    part = cuda.shared.array(WARPS, float32)
    r = cuda.blockIdx.x
    largest, total = largest_and_sum(r, logits_RV, part)
    if cuda.threadIdx.x == 0:
        score_R[r] = logits_RV[r, token_R[r]] - largest - log_of(total, largest)


# What each kernel is compiled and type-checked for, without a GPU.
_SCORES = (float32[:, ::1], float32[:, ::1], int64[::1])
SIGNATURES = {
    scores_in_three_passes: [_SCORES],
    scores_in_two_passes: [_SCORES],
    score_in_one_pass: [(float32[:, ::1], int64[::1], float32[::1])],
}
