"""Bias and activation in one go (LightSeq, section 2.1), compiled for the CPU.

NumPy passes over memory once for each operation, and has no erf. Here a number is read once and written once, and erf
and tanh are arithmetic alone, so that the loops run on vectors, which a call of the C library's functions would forbid.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous, in_numpy
from ..reference import activation as reference
from ..reference.activation import GATED, code_of
from .common.activation import VECTORS, activate, no_bias
from .common.atomics import array_at
from .common.code_paths import COMPILED, NUMPY, ran
from .common.jit import njit
from .common.thread_pool import DONE, cut_rows, parallel_for, schedule

F = np.float32


@capturable
def bias_activation(f_RX, bias_X, activation, out=None):
    """In float32. Numbers of any other dtype go to the reference: erf and tanh here have a float32's digits."""
    if f_RX.dtype != F:
        ran(NUMPY)
        return reference.bias_activation(f_RX, bias_X, activation, out)
    (R, X), code = f_RX.shape, code_of(activation)
    results = X // 2 if code >= GATED else X
    out = np.empty((R, results), F) if out is None else out
    ran(COMPILED)
    arrays = f_RX, no_bias(X) if bias_X is None else contiguous(bias_X, F), no_bias(results), code, out
    if f_RX.flags.c_contiguous and out.flags.c_contiguous:
        rows_of_task, workers = cut_rows(R, X)
        parallel_for(_activation, (*arrays, rows_of_task), _task_of_activation, workers)
    else:
        in_numpy("arrays are not float32 and in order")
        _bias_activation(*arrays)
    return out


@capturable
def add_bias(x_RX, bias_X, out=None):
    """In float32, which worker threads share; numbers of any other dtype go to the reference."""
    if x_RX.dtype == F:
        return bias_activation(x_RX, bias_X, None, out)
    ran(NUMPY)
    return reference.add_bias(x_RX, bias_X, out)


@njit(cache=True, nogil=True)
def _activation(f_RX, bias_X, zeros_X, code, y_RX, rows_of_task, function, table):
    """Queues one task per block of rows."""
    f, bias, zeros, y = f_RX.ctypes.data, bias_X.ctypes.data, zeros_X.ctypes.data, y_RX.ctypes.data
    (R, X), results = f_RX.shape, y_RX.shape[1]
    args = np.int64(f), np.int64(bias), np.int64(zeros), np.int64(y), np.int64(code), R, X, results, rows_of_task
    return schedule(-(-R // rows_of_task), function, args, table)


@njit(**VECTORS)
def _task_of_activation(args, task):
    f, bias, zeros, y, code, R, X, results, rows_of_task = array_at(args, 0, (9,))
    first, rows = task * rows_of_task, min(rows_of_task, R - task * rows_of_task)
    f_RX, y_RX = array_at(f + 4 * first * X, F(0), (rows, X)), array_at(y + 4 * first * results, F(0), (rows, results))
    _bias_activation(f_RX, array_at(bias, F(0), (X,)), array_at(zeros, F(0), (results,)), code, y_RX)
    return DONE


@njit(**VECTORS)
def _bias_activation(f_RX, bias_X, zeros_X, code, y_RX):
    """Of pairs, the gates of a row are laid side by side first, so that they are activated on vectors, too."""
    results, gated = y_RX.shape[1], code >= GATED
    gate_X = np.empty(results if gated else 0, np.float32)
    for r in range(f_RX.shape[0]):
        if gated:
            for j in range(results):
                gate_X[j] = f_RX[r, 2 * j] + bias_X[2 * j]
            activate(gate_X, zeros_X, code - GATED, y_RX[r])
            for j in range(results):
                y_RX[r, j] *= f_RX[r, 2 * j + 1] + bias_X[2 * j + 1]
        else:
            activate(f_RX[r], bias_X, code, y_RX[r])
