"""Bias and activation in one go (LightSeq, section 2.1), compiled for the CPU.

NumPy passes over memory once for each operation, and has no erf. Here a number is read once and written once, and erf
and tanh are arithmetic alone, so that the loops run on vectors, which a call of the C library's functions would forbid.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import activation as reference
from ..reference.activation import GATED, activation_code
from .common.activation import VECTORS, activate, no_bias
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.tasks import in_tasks
from .common.thread_pool import DONE, cut_rows, parallel_for

F = np.float32


@capturable
def bias_activation(f_RX, bias_X, activation, out=None):
    """Computes in float32. Other dtypes go to the reference: erf and tanh here have a float32's digits."""
    if f_RX.dtype != F:
        count_call(NUMPY)
        return reference.bias_activation(f_RX, bias_X, activation, out)
    (R, X), code = f_RX.shape, activation_code(activation)
    results = X // 2 if code >= GATED else X
    out = np.empty((R, results), F) if out is None else out
    count_call(COMPILED)
    arrays = f_RX, no_bias(X) if bias_X is None else contiguous_array(bias_X, F), no_bias(results), code, out
    tasks, rows_of_task, workers = cut_rows(R, X)
    parallel_for(_bias_activation, tasks, (*arrays, rows_of_task), workers)
    return out


@capturable
def add_bias(x_RX, bias_X, out=None):
    """Computes in float32, on worker threads; other dtypes go to the reference."""
    if x_RX.dtype == F:
        return bias_activation(x_RX, bias_X, None, out)
    count_call(NUMPY)
    return reference.add_bias(x_RX, bias_X, out)


@in_tasks(**VECTORS)
def _bias_activation(task, f_RX, bias_X, zeros_X, code, y_RX, rows_of_task):
    """Adds the bias and activates; the gates of a row of pairs are laid side by side first, so that vectors serve them
    too.
    """
    results, gated = y_RX.shape[1], code >= GATED
    gate_X = np.empty(results if gated else 0, np.float32)
    for r in range(task * rows_of_task, min((task + 1) * rows_of_task, len(f_RX))):
        if gated:
            for j in range(results):
                gate_X[j] = f_RX[r, 2 * j] + bias_X[2 * j]
            activate(gate_X, zeros_X, code - GATED, y_RX[r])
            for j in range(results):
                y_RX[r, j] *= f_RX[r, 2 * j + 1] + bias_X[2 * j + 1]
        else:
            activate(f_RX[r], bias_X, code, y_RX[r])
    return DONE
