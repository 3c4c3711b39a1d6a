"""Bias and activation in one go (LightSeq, section 2.1), compiled for the CPU.

NumPy passes over memory once for each operation, and has no erf. Here a number is read once and written once, and erf
and tanh are arithmetic alone, so that the loops run on vectors, which a call of the C library's functions would forbid.
"""

from __future__ import annotations

import functools

import numpy as np

from ..reference import activation as reference
from ..reference.activation import (
    GATED,
    GELU,
    GELU_10,
    GELU_NEW,
    LAPLACE,
    LAPLACE_DEVIATION,
    LAPLACE_MEAN,
    MISH,
    QUICK_GELU,
    RELU,
    RELU2,
    SILU,
    TANH,
    code_of,
)
from ..runtime.capture import capturable, contiguous, in_numpy
from .common.atomics import array_at
from .common.code_paths import COMPILED, NUMPY, ran
from .common.jit import njit
from .common.thread_pool import DONE, cut_rows, parallel_for, schedule
from .common.vector_exp import exp

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


@functools.lru_cache(maxsize=64)
def no_bias(outputs):
    """Zeros to add where there is no bias: code is compiled for arrays alone, and adding them costs nothing."""
    zeros_X = np.zeros(outputs, F)
    zeros_X.flags.writeable = False  # as all weights are: code is compiled for one kind alone
    return zeros_X


# A division does not check for zero, which would keep a loop off vectors; a product and a sum round once.
VECTORS = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
# Fitted: x P(x^2) / Q(x^2), with errors of at most 2e-8 before rounding. All coefficients are positive, so that nothing
# cancels. Beyond these ends, erf and tanh are 1 but for a rounding.
ERF_ENDS, TANH_ENDS = F(3.92), F(9)
MEAN, PER_DEVIATION = F(LAPLACE_MEAN), F(1 / (LAPLACE_DEVIATION * np.sqrt(2)))


@njit(**VECTORS)
def erf(x):
    x = min(max(x, -ERF_ENDS), ERF_ENDS)
    t = x * x
    p = F(2.0347225e-06) * t + F(0.00028747728)
    p = (((p * t + F(0.0038682935)) * t + F(0.053060375)) * t + F(0.19276346)) * t + F(1.128379)
    q = F(3.80704e-05) * t + F(0.0011881043)
    q = (((q * t + F(0.01517223)) * t + F(0.11508435)) * t + F(0.50416386)) * t + F(1)
    return x * p / q


@njit(**VECTORS)
def tanh(x):
    x = min(max(x, -TANH_ENDS), TANH_ENDS)
    t = x * x
    p = (((F(1.318411e-08) * t + F(2.0471749e-05)) * t + F(0.0034865772)) * t + F(0.13373193)) * t + F(0.99999988)
    q = (((F(7.7026169e-07) * t + F(0.00032713774)) * t + F(0.025841961)) * t + F(0.46706492)) * t + F(1)
    return x * p / q


@njit(cache=True, nogil=True)
def _activation(f_RX, bias_X, zeros_X, code, y_RX, rows_of_task, function, table):
    """Lays bias and activation on the table: a task for some rows."""
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


@njit(inline="always", **VECTORS)
def activate(f_X, bias_X, code, out_X):
    """act(f + bias), for the activation of that number. A loop for each, so that each runs on vectors.

    Always part of its caller: where that hands over one array as `f` and `out`, the loops must see that they are one.
    As two that overlap, they would be taken number by number.
    """
    if code == GELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + erf(x * F(np.sqrt(0.5))))
    elif code == GELU_NEW:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(np.sqrt(2 / np.pi)) * (x + F(0.044715) * x * x * x)))
    elif code == QUICK_GELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(0.851) * x))
    elif code == SILU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(0.5) * x))
    elif code == RELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0) if x < F(0) else x
    elif code == TANH:
        for i in range(len(f_X)):
            out_X[i] = tanh(f_X[i] + bias_X[i])
    elif code == GELU_10:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            x = F(0.5) * x * (F(1) + erf(x * F(np.sqrt(0.5))))
            out_X[i] = F(10) if x > F(10) else x
    elif code == MISH:  # see reference/activation.py
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            e = exp(F(20) if x > F(20) else x)
            t = e * (e + F(2))
            out_X[i] = x * (t / (t + F(2)))
    elif code == RELU2:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            x = F(0) if x < F(0) else x
            out_X[i] = x * x
    elif code == LAPLACE:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            y = F(0.5) * (F(1) + erf((x - MEAN) * PER_DEVIATION))
            out_X[i] = F(0) if y < F(0) else y  # erf may be below -1 by a rounding
    else:  # PLAIN
        for i in range(len(f_X)):
            out_X[i] = f_X[i] + bias_X[i]
