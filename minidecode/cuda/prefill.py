"""Attention inside each sentence: a GEMM, mask and softmax in one kernel, a GEMM, heads back.

The kernels are LightSeq's `ker_correlation_softmax_encself` and `ker_arrange_atten_output` (section 2.1).

The two products are the library's, for tensor cores are what they are made for; see `products` in launch.py.

1. A kernel for each elementary operation: heads in front of rows (for queries, keys and values), scale, mask, maximum,
   difference, exponential, sum, quotient, heads back. All scores go to memory and come back seven times.
2. Between the products one kernel, a warp for each row of scores: it scales and masks on the way, and reads and writes
   a row three times, the last two times from the cache. The products read heads by their strides, so that nothing is
   laid out for them. What they give lies head by head, and a second kernel puts the heads side by side.

Scores have as many columns as the longest sentence has keys; those behind a shorter one's last key are never read.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, cuda, float32, int64

from ..errors import OptionError
from ..reference.prefill import sentences
from ..runtime.launch import launch
from ..runtime.products import products
from .common.position_bias import bias_at
from .common.reduction import THREADS, WARPS, warp_max, warp_sum

NOTHING = float32(-np.inf)  # the score of what is not seen


def attend_prefill_v1(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    q_HRK, k_GXK, v_GXU = (heads_in_front(x) for x in (q_RHK, k_XGK, v_XGU))
    q_RHK, k_XGK, v_XGU = (x.transpose(1, 0, 2) for x in (q_HRK, k_GXK, v_GXU))
    rows, scores_RHM = scores_of(q_RHK, k_XGK, q_offsets_X, k_offsets_X, make=np.zeros_like)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(q_RHK)
    top_RH, total_RH = (np.empty_like(scores_RHM, shape=scores_RHM.shape[:2]) for _ in range(2))
    thread_per_number(scale_scores, scores_RHM, np.float32(scale))
    add_position_bias(scores_RHM, 1.0, bias, q_offsets_X, k_offsets_X)
    thread_per_number(mask_scores, scores_RHM, *bounds)
    thread_per_number(maxima, top_RH, scores_RHM)
    thread_per_number(subtract, scores_RHM, top_RH)
    thread_per_number(exponentials, scores_RHM)
    thread_per_number(sums, total_RH, scores_RHM)
    thread_per_number(divide, scores_RHM, total_RH)
    return weighted_values(scores_RHM, v_XGU, rows, out)


def heads_in_front(x_RHX):
    R, H, X = x_RHX.shape
    x_HRX = np.empty_like(x_RHX, shape=(H, R, X), order="C")
    thread_per_number(lay_out, x_HRX, x_RHX)
    return x_HRX


@cuda.jit
def lay_out(x_HRX, x_RHX):
    _, R, X = x_HRX.shape
    i = cuda.grid(1)
    if i < x_HRX.size:
        h, r, x = i // (R * X), i // X % R, i % X
        x_HRX[h, r, x] = x_RHX[r, h, x]


@cuda.jit
def scale_scores(scores_RHM, scale):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] *= scale


@cuda.jit
def mask_scores(scores_RHM, q_offsets_X, k_offsets_X, causal, window):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        begin, end, _ = seen_by(i // (H * M), q_offsets_X, k_offsets_X, causal, window)
        if not begin <= i % M < end:
            scores_RHM[i // (H * M), i // M % H, i % M] = NOTHING


@cuda.jit
def maxima(top_RH, scores_RHM):
    i, H = cuda.grid(1), top_RH.shape[1]
    if i < top_RH.size:
        top = NOTHING
        for m in range(scores_RHM.shape[2]):
            top = max(top, scores_RHM[i // H, i % H, m])
        top_RH[i // H, i % H] = top


@cuda.jit
def subtract(scores_RHM, top_RH):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] -= top_RH[i // (H * M), i // M % H]


@cuda.jit
def exponentials(scores_RHM):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        r, h, m = i // (H * M), i // M % H, i % M
        scores_RHM[r, h, m] = math.exp(scores_RHM[r, h, m])


@cuda.jit
def sums(total_RH, scores_RHM):
    i, H = cuda.grid(1), total_RH.shape[1]
    if i < total_RH.size:
        total = float32(0)
        for m in range(scores_RHM.shape[2]):
            total += scores_RHM[i // H, i % H, m]
        total_RH[i // H, i % H] = total


@cuda.jit
def divide(scores_RHM, total_RH):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        scores_RHM[i // (H * M), i // M % H, i % M] /= total_RH[i // (H * M), i // M % H]


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Version 2."""
    rows, scores_RHM = scores_of(q_RHK, k_XGK, q_offsets_X, k_offsets_X)
    blocks = -(-scores_RHM.shape[0] * scores_RHM.shape[1] // WARPS)
    bounds = q_offsets_X, k_offsets_X, causal, window or len(q_RHK)
    scale = add_position_bias(scores_RHM, scale, bias, q_offsets_X, k_offsets_X)
    launch(softmax_of_seen, blocks, THREADS, scores_RHM, np.float32(scale), *bounds)
    return weighted_values(scores_RHM, v_XGU, rows, out)


def add_position_bias(scores_RHM, scale, bias, q_offsets_X, k_offsets_X):
    """Scales the scores and adds the bias -> the scale that is left to do; without a bias nothing is done."""
    if bias is None:
        return scale
    biases = bias.bias_XHP, bias.bucket_L, bias.zero
    thread_per_number(scale_and_add_bias, scores_RHM, np.float32(scale), *biases, q_offsets_X, k_offsets_X)
    return 1.0


@cuda.jit
def scale_and_add_bias(scores_RHM, scale, bias_XHP, bucket_L, zero, q_offsets_X, k_offsets_X):
    _, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i < scores_RHM.size:
        r, h, m = i // (H * M), i // M % H, i % M
        b = 0
        while q_offsets_X[b + 1] <= r:
            b += 1
        if m < k_offsets_X[b + 1] - k_offsets_X[b]:
            bias = bias_at(bias_XHP, bucket_L, r, h, r - q_offsets_X[b] - m + zero)
            scores_RHM[r, h, m] = scale * scores_RHM[r, h, m] + bias


@cuda.jit
def softmax_of_seen(scores_RHM, scale, q_offsets_X, k_offsets_X, causal, window):
    """In place; what a row does not see of its own sentence gets weight 0. A lane reads back what it wrote itself."""
    R, H, _ = scores_RHM.shape
    row, lane = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if row >= R * H:
        return
    begin, end, M = seen_by(row // H, q_offsets_X, k_offsets_X, causal, window)
    scores_M = scores_RHM[row // H, row % H]
    top, total = NOTHING, float32(0)
    for m in range(lane, end, 32):
        if m >= begin:
            top = max(top, scale * scores_M[m])
    top = warp_max(top)
    for m in range(lane, end, 32):
        if m >= begin:
            scores_M[m] = math.exp(scale * scores_M[m] - top)
            total += scores_M[m]
    total = warp_sum(total)
    for m in range(lane, M, 32):
        scores_M[m] = scores_M[m] / total if begin <= m < end else float32(0)


@cuda.jit(device=True)
def seen_by(r, q_offsets_X, k_offsets_X, causal, window):
    """(begin, end, M): row r sees begin <= m < end of the M keys of its sentence."""
    b = 0
    while q_offsets_X[b + 1] <= r:
        b += 1
    M = k_offsets_X[b + 1] - k_offsets_X[b]
    if not causal:
        return int64(0), M, M
    n = r - q_offsets_X[b]
    return max(n + 1 - window, 0), n + 1, M


@cuda.jit
def heads_side_by_side(a_RHU, a_HRU):
    _, H, U = a_RHU.shape
    i = cuda.grid(1)
    if i < a_RHU.size:
        r, h, u = i // (H * U), i // U % H, i % U
        a_RHU[r, h, u] = a_HRU[h, r, u]


def scores_of(q_RHK, k_XGK, q_offsets_X, k_offsets_X, make=np.empty_like):
    """(rows, scores_RHM): (query rows, key rows) of each sentence, and q . k of each row and head.

    The H/G query heads of a group meet the same keys. Raises OptionError where the kernels do not compute in this type.
    """
    if q_RHK.dtype != np.float32 or k_XGK.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/prefill.py compute in float32, not {q_RHK.dtype}: the reference in both"
        )
    (R, H, K), G, rows = q_RHK.shape, k_XGK.shape[1], list(sentences(q_offsets_X, k_offsets_X))
    longest = max(k_rows.stop - k_rows.start for _, k_rows in rows)
    scores_RHM = make(q_RHK, shape=(R, H, longest), order="C")
    q_GXRK = q_RHK.reshape(R, G, H // G, K).transpose(1, 2, 0, 3)
    k_GKX, scores_GXRM = k_XGK.transpose(1, 2, 0), scores_RHM.reshape(R, G, H // G, longest).transpose(1, 2, 0, 3)
    products((q_GXRK[:, :, q], k_GKX[:, None, :, k], scores_GXRM[:, :, q, : k.stop - k.start]) for q, k in rows)
    return rows, scores_RHM


def weighted_values(weights_RHM, v_XGU, rows, out):
    """The weighted sums of the values, which the product leaves head by head, side by side."""
    (R, H, M), (_, G, U) = weights_RHM.shape, v_XGU.shape
    a_HRU = np.empty_like(weights_RHM, shape=(H, R, U), order="C")
    weights_GXRM, v_GXU = weights_RHM.reshape(R, G, H // G, M).transpose(1, 2, 0, 3), v_XGU.transpose(1, 0, 2)
    a_GXRU = a_HRU.reshape(G, H // G, R, U)
    products((weights_GXRM[:, :, q, : k.stop - k.start], v_GXU[:, None, k], a_GXRU[:, :, q]) for q, k in rows)
    a_RX = np.empty_like(a_HRU, shape=(R, H * U)) if out is None else out
    thread_per_number(heads_side_by_side, a_RX.reshape(R, H, U), a_HRU)
    return a_RX


def thread_per_number(kernel, result, *others):
    launch(kernel, -(-result.size // THREADS), THREADS, result, *others)


# What each kernel is compiled and type-checked for, without a GPU.
_HEADS, _SCORES, _OF_ROWS = float32[:, :, ::1], float32[:, :, ::1], float32[:, ::1]
_BOUNDS = (int64[::1], int64[::1], boolean, int64)
SIGNATURES = {
    lay_out: [(_HEADS, float32[:, :, :])],
    scale_scores: [(_SCORES, float32)],
    scale_and_add_bias: [(_SCORES, float32, float32[:, :, :], int64[::1], int64, int64[::1], int64[::1])],
    mask_scores: [(_SCORES, *_BOUNDS)],
    maxima: [(_OF_ROWS, _SCORES)],
    subtract: [(_SCORES, _OF_ROWS)],
    exponentials: [(_SCORES,)],
    sums: [(_OF_ROWS, _SCORES)],
    divide: [(_SCORES, _OF_ROWS)],
    softmax_of_seen: [(_SCORES, float32, *_BOUNDS)],
    heads_side_by_side: [(_HEADS, _HEADS)],
}
