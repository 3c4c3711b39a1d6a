"""Attention over a shared prompt and over what each beam has generated (FastSeq, 4.1.1), compiled for the CPU.

NumPy goes three times over all scores, and for a few rows and many positions BLAS first copies keys and values into an
order of its own, which takes longer than the product itself. Here a cache is read once for four queries, or positions,
at once. And a key/value head of a sentence is done with, scores, softmax and sums, before the next is begun: its scores
stay in the L2 cache, and the worker threads share the heads (thread_pool.py). A float16 cache is read as it is,
and each number is cast in a register.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous, in_numpy
from ..reference.common.attention import heads_side_by_side
from .common.atomics import array_at, bits_of, float_of
from .common.attention import add_sums, scores_of
from .common.jit import njit
from .common.low_precision import in_bits
from .common.position_bias import add_bias, bias_arrays
from .common.softmax import softmax_in_place
from .common.thread_pool import CALLER_ALONE, DONE, SPINNING_WORKERS, parallel_for, schedule

WORTH_WORKERS = 2**16  # numbers of keys and values, times the queries that they meet: some 20 us of reading


@capturable
def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    """Equation 3. With an empty prompt, or no room for what rows generate, also what grouped.py and shared.py do."""
    (R, H, K), (B, G, N, _), (T, U) = q_RHK.shape, prompt_k_BGNK.shape, v_RGTU.shape[2:]
    a_RHU = np.empty((R, H, U), q_RHK.dtype)
    q_RHK, scale = contiguous(q_RHK), q_RHK.dtype.type(scale)  # queries are multiplied by it as they are read
    cache = [contiguous(in_bits(x)) for x in (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU)]
    prompt_begin_B, begin_R, end_R = (contiguous(x, np.int64) for x in (prompt_begin_B, begin_R, end_R))
    bias_and_zero = bias_arrays(bias, q_RHK.dtype)
    arrays = q_RHK, *cache[:2], prompt_begin_B, *cache[2:], begin_R, end_R, *bias_and_zero, scale, a_RHU
    kinds = {x.dtype for x in cache}
    if q_RHK.dtype == np.float32 and len(kinds) == 1 and cache[0].dtype in TASK_OF:  # workers know only addresses
        is_long = B * G > 1 and R * (N + T) * H * (K + U) > WORTH_WORKERS
        parallel_for(_attention, arrays, TASK_OF[cache[0].dtype], SPINNING_WORKERS if is_long else CALLER_ALONE)
    else:
        in_numpy("arrays are not float32")
        _attend_heads(*arrays)
    return heads_side_by_side(a_RHU, out)


@njit(cache=True, nogil=True)
def _attention(
    q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU,
    function, table,
):  # fmt: skip
    """Queues one task for each key/value head of each sentence."""
    (R, H, K), (B, G, N, U), T = q_RHK.shape, v_BGNU.shape, k_RGTK.shape[2]
    args = (
        np.int64(q_RHK.ctypes.data), np.int64(k_BGNK.ctypes.data), np.int64(v_BGNU.ctypes.data),
        np.int64(begin_B.ctypes.data), np.int64(k_RGTK.ctypes.data), np.int64(v_RGTU.ctypes.data),
        np.int64(begin_R.ctypes.data), np.int64(end_R.ctypes.data), np.int64(bias_XHP.ctypes.data),
        np.int64(bucket_L.ctypes.data), zero, np.int64(bits_of(scale)), np.int64(a_RHU.ctypes.data),
        R, H, K, B, G, N, U, T, len(bias_XHP), bias_XHP.shape[2], len(bucket_L),
    )  # fmt: skip
    return schedule(B * G, function, args, table)


@njit(inline="always")
def _attend_task(args, task, like):
    """Key/value head `task` of the attention that args describes; its cache holds numbers like `like`."""
    (
        q, k, v, begin_B, own_k, own_v, begin_R, end_R, bias, bucket, zero, scale, a, R, H, K, B, G, N, U, T, X, P, L
    ) = array_at(args, 0, (24,))  # fmt: skip
    _attend_head(
        array_at(q, np.float32(0), (R, H, K)), array_at(k, like, (B, G, N, K)), array_at(v, like, (B, G, N, U)),
        array_at(begin_B, 0, (B,)), array_at(own_k, like, (R, G, T, K)), array_at(own_v, like, (R, G, T, U)),
        array_at(begin_R, 0, (R,)), array_at(end_R, 0, (R,)), array_at(bias, np.float32(0), (X, H, P)),
        array_at(bucket, 0, (L,)), zero, float_of(np.int32(scale)), array_at(a, np.float32(0), (R, H, U)),
        task // G, task % G,
    )  # fmt: skip
    return DONE


@njit(cache=True, nogil=True)
def _task_of_float32(args, task):
    return _attend_task(args, task, np.float32(0))


@njit(cache=True, nogil=True)
def _task_of_float16(args, task):
    return _attend_task(args, task, np.uint16(0))


TASK_OF = {np.dtype(np.float32): _task_of_float32, np.dtype(np.uint16): _task_of_float16}  # by what is read


@njit(cache=True, nogil=True)
def _attend_heads(
    q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU
):  # fmt: skip
    """All key/value heads of all sentences, one after the other."""
    B, G = k_BGNK.shape[:2]
    for task in range(B * G):
        _attend_head(
            q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU,
            task // G, task % G,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def _attend_head(
    q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU, b, g
):  # fmt: skip
    """Key/value head g of sentence b, for the W rows of the sentence, and of each row the P query heads of the group.

    X are the W*P queries; the scores of each are of N positions of the prompt, and then of its row's own.
    """
    (R, H, K), (B, G), U = q_RHK.shape, k_BGNK.shape[:2], a_RHU.shape[2]
    W, P, N = R // B, H // G, k_BGNK.shape[2] - begin_B[b]
    k_NK, v_NU = k_BGNK[b, g, begin_B[b] :], v_BGNU[b, g, begin_B[b] :]
    longest = 0
    for r in range(b * W, b * W + W):
        longest = max(longest, end_R[r] - begin_R[r])
    q_XK, a_XU = np.empty((W * P, K), q_RHK.dtype), np.zeros((W * P, U), q_RHK.dtype)
    scores_XM = np.empty((W * P, N + longest), q_RHK.dtype)
    for w in range(W):
        for p in range(P):
            for i in range(K):
                q_XK[w * P + p, i] = q_RHK[b * W + w, g * P + p, i] * scale

    scores_of(q_XK, k_NK, v_NU, scores_XM)
    for w in range(W):
        r, mine = b * W + w, slice(w * P, w * P + P)
        own_k_TK, own_v_TU = k_RGTK[r, g, begin_R[r] : end_R[r]], v_RGTU[r, g, begin_R[r] : end_R[r]]
        scores_of(q_XK[mine], own_k_TK, own_v_TU, scores_XM[mine, N:])
        for p in range(P):
            scores_M = scores_XM[w * P + p, : N + end_R[r] - begin_R[r]]
            if len(bias_XHP):
                bias_P, newest = bias_XHP[min(r, len(bias_XHP) - 1), g * P + p], end_R[r] - 1 + zero
                add_bias(scores_M[:N], bias_P, bucket_L, newest + N)
                add_bias(scores_M[N:], bias_P, bucket_L, newest - begin_R[r])
            softmax_in_place(scores_M)
    add_sums(scores_XM, v_NU, a_XU)
    for w in range(W):
        r, mine = b * W + w, slice(w * P, w * P + P)
        add_sums(scores_XM[mine, N:], v_RGTU[r, g, begin_R[r] : end_R[r]], a_XU[mine])
        a_RHU[r, g * P : g * P + P] = a_XU[mine]
