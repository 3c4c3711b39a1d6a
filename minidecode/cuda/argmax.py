"""The likeliest token of each row, and the model's log-probability of it.

1. A block per row, in three passes: the largest score, the largest logit, the sum of exponentials.
2. One pass: each thread keeps its best score, and a sum of exponentials that is scaled anew when its largest logit
   grows, as in hars.py. Where nothing has touched the scores, they are the logits, and come from the cache.
"""

from __future__ import annotations

import math

from numba import cuda, float32, int32, int64

from ..ops import FINE, NONE_LEFT, NOT_A_NUMBER
from ..reference.argmax import results
from ..runtime.launch import launch
from . import in_float32
from .candidates import INFINITY, NAN, NOWHERE, THREADS, WARPS, first_of_block, goes_first
from .common.reduction import block_max, block_sum
from .hars import log_of, rescaled, with_one_more


def argmax_tokens_v1(scores_RV, logits_RV=None, out=None):
    return launched(largest_in_passes, scores_RV, logits_RV, out)


def launched(kernel, scores_RV, logits_RV, out):
    """A block per row. Without logits the kernel gets the scores in their place, and takes no notice of them."""
    out = results(in_float32(scores_RV), out)
    logits, has_logits = (scores_RV, 0) if logits_RV is None else (logits_RV, 1)
    launch(kernel, len(scores_RV), THREADS, scores_RV, logits, has_logits, *out)
    return out


@cuda.jit
def largest_in_passes(scores_RV, logits_RV, has_logits, token_R, logprob_R, trouble_R):
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, t, V = cuda.blockIdx.x, cuda.threadIdx.x, scores_RV.shape[1]
    best, column, has_nan = -INFINITY, NOWHERE, int32(0)
    for v in range(t, V, THREADS):
        if scores_RV[r, v] != scores_RV[r, v]:
            has_nan = int32(1)
        if goes_first(scores_RV[r, v], v, best, column):
            best, column = scores_RV[r, v], v
    best, column = first_of_block(best, column, part, place)
    is_nan = cuda.syncthreads_or(has_nan)
    largest = -INFINITY
    for v in range(t, V, THREADS):
        if logits_RV[r, v] > largest:
            largest = logits_RV[r, v]
    largest, total = block_max(largest, part), float32(0)
    for v in range(t, V, THREADS):
        total += math.exp(logits_RV[r, v] - largest)
    total = block_sum(total, part)
    if t == 0:
        write(r, scores_RV, logits_RV, has_logits, best, column, is_nan, largest, total, token_R, logprob_R, trouble_R)


@cuda.jit(device=True)
def write(r, scores_RV, logits_RV, has_logits, best, column, is_nan, largest, total, token_R, logprob_R, trouble_R):
    """The row's results. A row all of whose scores are NaN has no column."""
    token_R[r], logprob_R[r], trouble_R[r] = 0, NAN, NOT_A_NUMBER
    if not is_nan:
        logprob = logits_RV[r, column] - largest - log_of(total, largest) if has_logits else best
        if logprob == logprob:
            token_R[r], logprob_R[r] = column, logprob
            trouble_R[r] = FINE if best > -INFINITY else NONE_LEFT


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    """Version 2."""
    return launched(largest_in_one_pass, scores_RV, logits_RV, out)


@cuda.jit
def largest_in_one_pass(scores_RV, logits_RV, has_logits, token_R, logprob_R, trouble_R):
    part = cuda.shared.array(WARPS, float32)
    place = cuda.shared.array(WARPS, int64)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    best, column, has_nan = -INFINITY, NOWHERE, int32(0)
    mine, total = -INFINITY, float32(0)
    for v in range(t, scores_RV.shape[1], THREADS):
        score = scores_RV[r, v]
        if score != score:
            has_nan = int32(1)
        if goes_first(score, v, best, column):
            best, column = score, v
        if has_logits:
            mine, total = with_one_more(mine, total, logits_RV[r, v])
    best, column = first_of_block(best, column, part, place)
    is_nan = cuda.syncthreads_or(has_nan)
    largest = block_max(mine, part)
    total = block_sum(rescaled(total, mine, largest), part)
    if t == 0:
        write(r, scores_RV, logits_RV, has_logits, best, column, is_nan, largest, total, token_R, logprob_R, trouble_R)


# What each kernel is compiled and type-checked for, without a GPU.
_ARGUMENTS = (float32[:, ::1], float32[:, ::1], int64, int64[::1], float32[::1], int64[::1])
SIGNATURES = {largest_in_passes: [_ARGUMENTS], largest_in_one_pass: [_ARGUMENTS]}
