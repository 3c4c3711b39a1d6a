"""Residual, bias and layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous, in_numpy
from ..reference import or_empty
from .common.atomics import array_at, bits_of, float_of
from .common.jit import njit
from .common.normalise import VECTORS, normalise_row
from .common.thread_pool import DONE, cut_rows, parallel_for, schedule

F = np.float32


@capturable
def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    summed_RD, h_RD = out or (None, None)
    h_RD = np.empty_like(x_RD) if h_RD is None else h_RD
    if y_RD is None:
        _run(x_RD, x_RD[:0], bias_D, norm, x_RD, h_RD)
        return x_RD, h_RD
    summed_RD = np.empty_like(x_RD) if summed_RD is None else summed_RD
    _run(x_RD, y_RD, bias_D, norm, summed_RD, h_RD)
    return summed_RD, h_RD


def _run(x_RD, y_RD, bias_D, norm, summed_RD, h_RD):
    """Runs the norm as tasks, which a captured step may hold, if all is float32 and in order. No rows of y: x stays."""
    bias_D, shift_D = or_empty(bias_D, norm.gain_D), or_empty(norm.bias_D, norm.gain_D)
    given = [contiguous(a) for a in (x_RD, y_RD, bias_D, norm.gain_D, shift_D)]  # else sums do not run on vectors
    summed_RD = summed_RD if len(y_RD) else given[0]
    arrays = *given, x_RD.dtype.type(norm.eps), summed_RD, h_RD
    if x_RD.dtype == y_RD.dtype == F and summed_RD.flags.c_contiguous and h_RD.flags.c_contiguous:
        rows_of_task, workers = cut_rows(*x_RD.shape)
        parallel_for(_norm_of_floats, (*arrays, rows_of_task), _task_of_norm, workers)
    else:
        in_numpy("arrays are not float32 and in order")
        _residual_norm(*arrays)


@njit(cache=True, nogil=True)
def _norm_of_floats(x_RD, y_RD, bias_D, gain_D, shift_D, eps, summed_RD, h_RD, rows_of_task, function, table):
    """Queues one task per block of rows."""
    args = (
        np.int64(x_RD.ctypes.data), np.int64(y_RD.ctypes.data), np.int64(bias_D.ctypes.data),
        np.int64(gain_D.ctypes.data), np.int64(shift_D.ctypes.data), np.int64(bits_of(eps)),
        np.int64(summed_RD.ctypes.data), np.int64(h_RD.ctypes.data), x_RD.shape[0], x_RD.shape[1], len(y_RD),
        len(bias_D), len(shift_D), rows_of_task,
    )  # fmt: skip
    return schedule(-(-len(x_RD) // rows_of_task), function, args, table)


@njit(**VECTORS)
def _task_of_norm(args, task):
    x, y, bias, gain, shift, eps, summed, h, R, D, rows_of_y, biases, shifts, rows_of_task = array_at(args, 0, (14,))
    first, rows, zero = task * rows_of_task, min(rows_of_task, R - task * rows_of_task), F(0)
    at = 4 * first * D
    _residual_norm(
        array_at(x + at, zero, (rows, D)), array_at(y + at, zero, (rows if rows_of_y else 0, D)),
        array_at(bias, zero, (biases,)), array_at(gain, zero, (D,)), array_at(shift, zero, (shifts,)),
        float_of(np.int32(eps)), array_at(summed + at, zero, (rows, D)), array_at(h + at, zero, (rows, D)),
    )  # fmt: skip
    return DONE


@njit(**VECTORS)
def _residual_norm(x_RD, y_RD, bias_D, gain_D, shift_D, eps, summed_RD, h_RD):
    """Without rows of y, x is not changed."""
    R, D = x_RD.shape
    for r in range(R):
        if len(y_RD) and len(bias_D):
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d] + bias_D[d]
        elif len(y_RD):
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d]
        normalise_row(summed_RD, r, gain_D, shift_D, eps, h_RD)
