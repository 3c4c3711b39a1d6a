"""Attention over pages, compiled for the CPU: pages are read where they lie, and nothing is gathered first.

A key/value head of a row is done with, scores, softmax and sums, before the next is begun, and worker threads share
them (thread_pool.py). Rows that hold the same page read it soon after each other, so that it comes from a cache of the
processor.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import contiguous
from ..reference.common.attention import heads_side_by_side
from .common.atomics import array_at, bits_of, float_of
from .common.attention import add_sums, scores_of
from .common.jit import njit
from .common.low_precision import in_bits
from .common.position_bias import add_bias, bias_arrays
from .common.softmax import softmax_in_place
from .common.thread_pool import CALLER_ALONE, DONE, SPINNING_WORKERS, parallel_for, schedule

WORTH_WORKERS = 2**16  # numbers of keys and values, times the queries that they meet: some 20 us of reading


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    """Head after head, page after page."""
    (R, H, K), U = q_RHK.shape, v_XGMU.shape[3]
    a_RHU = np.empty((R, H, U), q_RHK.dtype)
    cache = [contiguous(in_bits(x)) for x in (k_XGMK, v_XGMU)]
    numbers = [contiguous(x, np.int64) for x in (table_RX, begin_R, end_R)]
    biases = bias_arrays(bias, q_RHK.dtype)
    arrays = contiguous(q_RHK), *cache, *numbers, *biases, q_RHK.dtype.type(scale), a_RHU
    if q_RHK.dtype == np.float32 and cache[0].dtype == cache[1].dtype and cache[0].dtype in TASK_OF:
        is_long = int((end_R - begin_R).sum()) * H * (K + U) > WORTH_WORKERS
        parallel_for(_attention, arrays, TASK_OF[cache[0].dtype], SPINNING_WORKERS if is_long else CALLER_ALONE)
    else:  # workers know only addresses
        _attend_heads(*arrays)
    return heads_side_by_side(a_RHU, out)


@njit(cache=True, nogil=True)
def _attention(
    q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU, function, table
):  # fmt: skip
    """Queues one task for each key/value head of each row."""
    (R, H, K), (X, G, M, U) = q_RHK.shape, v_XGMU.shape
    args = (
        np.int64(q_RHK.ctypes.data), np.int64(k_XGMK.ctypes.data), np.int64(v_XGMU.ctypes.data),
        np.int64(table_RX.ctypes.data), np.int64(begin_R.ctypes.data), np.int64(end_R.ctypes.data),
        np.int64(bias_XHP.ctypes.data), np.int64(bucket_L.ctypes.data), zero, np.int64(bits_of(scale)),
        np.int64(a_RHU.ctypes.data), R, H, K, X, G, M, U, table_RX.shape[1],
        len(bias_XHP), bias_XHP.shape[2], len(bucket_L),
    )  # fmt: skip
    return schedule(R * G, function, args, table)


@njit(inline="always")
def _attend_task(args, task, like):
    """Key/value head `task` of the attention that args describes; its pages hold numbers like `like`."""
    (
        q, k, v, table, begin, end, bias, bucket, zero, scale, a, R, H, K, X, G, M, U, pages, biases, P, L
    ) = array_at(args, 0, (22,))  # fmt: skip
    _attend_head(
        array_at(q, np.float32(0), (R, H, K)), array_at(k, like, (X, G, M, K)), array_at(v, like, (X, G, M, U)),
        array_at(table, 0, (R, pages)), array_at(begin, 0, (R,)), array_at(end, 0, (R,)),
        array_at(bias, np.float32(0), (biases, H, P)), array_at(bucket, 0, (L,)), zero, float_of(np.int32(scale)),
        array_at(a, np.float32(0), (R, H, U)), task // G, task % G,
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
def _attend_heads(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU):
    """All key/value heads of all rows, one after the other."""
    G = k_XGMK.shape[1]
    for task in range(len(q_RHK) * G):
        _attend_head(
            q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU, task // G, task % G
        )


@njit(cache=True, nogil=True)
def _attend_head(
    q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, bias_XHP, bucket_L, zero, scale, a_RHU, r, g
):  # fmt: skip
    """The query heads of key/value head g of row r, over pages that lie anywhere."""
    (_, H, K), (_, G, M, U) = q_RHK.shape, v_XGMU.shape
    per_group, begin, end = H // G, begin_R[r], end_R[r]
    q_XK, a_XU = np.empty((per_group, K), q_RHK.dtype), np.zeros((per_group, U), q_RHK.dtype)
    scores_XM = np.empty((per_group, end - begin), q_RHK.dtype)
    for p in range(per_group):
        for i in range(K):
            q_XK[p, i] = q_RHK[r, g * per_group + p, i] * scale
    for nth in range(begin // M, (end - 1) // M + 1):
        first, last = max(begin - nth * M, 0), min(end - nth * M, M)
        k_MK, v_MU = k_XGMK[table_RX[r, nth], g, first:last], v_XGMU[table_RX[r, nth], g, first:last]
        scores_of(q_XK, k_MK, v_MU, scores_XM[:, nth * M + first - begin :])
    for p in range(per_group):
        if len(bias_XHP):
            bias_P = bias_XHP[min(r, len(bias_XHP) - 1), g * per_group + p]
            add_bias(scores_XM[p], bias_P, bucket_L, end - 1 - begin + zero)
        softmax_in_place(scores_XM[p])
    for nth in range(begin // M, (end - 1) // M + 1):
        first, last = max(begin - nth * M, 0), min(end - nth * M, M)
        add_sums(scores_XM[:, nth * M + first - begin :], v_XGMU[table_RX[r, nth], g, first:last], a_XU)
    a_RHU[r, g * per_group : (g + 1) * per_group] = a_XU
