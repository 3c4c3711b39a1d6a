"""What follows the product of queries, keys and values, compiled for the CPU: the bias, and the cut into heads.

NumPy makes three passes on one thread. Here a row is read once, and the worker threads share the rows of a prompt.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous
from ..reference import heads as reference
from .common.activation import no_bias
from .common.atomics import array_at
from .common.code_paths import COMPILED, NUMPY, ran
from .common.jit import njit
from .common.thread_pool import DONE, REFUSED, cut_rows, parallel_for, schedule

F = np.float32


@capturable
def split_heads(qkv_RX, bias_X, heads, dtype=None, out=None):
    """In float32; where numbers are of another dtype, or lie otherwise or in another shape, the reference does it."""
    R, X = qkv_RX.shape
    shapes = (R, heads.H, heads.K), (R, heads.G, heads.K), (R, heads.G, heads.U)
    results = tuple(np.empty(shape, F) for shape in shapes) if out is None else out
    arrays = qkv_RX, contiguous(no_bias(X) if bias_X is None else bias_X, F), *results
    rows_of_task, workers = cut_rows(R, X)
    if (
        dtype in (None, F)
        and all(a.dtype == F and a.flags.c_contiguous for a in arrays)
        and tuple(a.shape for a in results) == shapes
        and parallel_for(_heads, (*arrays, rows_of_task), _task_of_heads, workers)
    ):
        ran(COMPILED)
        return results
    ran(NUMPY)
    return reference.split_heads(qkv_RX, bias_X, heads, dtype, out)


@njit(cache=True, nogil=True)
def _heads(qkv_RX, bias_X, q_RHK, k_RGK, v_RGU, rows_of_task, function, table):
    """Queues one task per block of rows; REFUSED where the product has other columns than the heads."""
    (R, X), parts = qkv_RX.shape, (q_RHK.size, k_RGK.size, v_RGU.size)
    if len(bias_X) != X or sum(parts) != R * X:
        return REFUSED
    args = (
        np.int64(qkv_RX.ctypes.data), np.int64(bias_X.ctypes.data), np.int64(q_RHK.ctypes.data),
        np.int64(k_RGK.ctypes.data), np.int64(v_RGU.ctypes.data), R, X, parts[0], parts[1], parts[2], rows_of_task,
    )  # fmt: skip
    return schedule(-(-R // rows_of_task), function, args, table)


@njit(cache=True, nogil=True)
def _task_of_heads(args, task):
    """The task's rows: to each of the three, its columns and their bias."""
    qkv, bias, q, k, v, R, X, of_q, of_k, of_v, rows_of_task = array_at(args, 0, (11,))
    qkv_RX, bias_X = array_at(qkv, F(0), (R, X)), array_at(bias, F(0), (X,))
    first, rows = task * rows_of_task, min(rows_of_task, R - task * rows_of_task)
    begin = 0
    for part, numbers in ((q, of_q), (k, of_k), (v, of_v)):
        columns = numbers // R
        part_RX = array_at(part, F(0), (R, columns))
        for r in range(first, first + rows):
            for x in range(columns):
                part_RX[r, x] = qkv_RX[r, begin + x] + bias_X[begin + x]
        begin += columns
    return DONE
