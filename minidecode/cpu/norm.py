"""Residual, bias and layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import or_empty
from .common.normalise import VECTORS, normalise_row
from .common.tasks import in_tasks
from .common.thread_pool import DONE, cut_rows, parallel_for


@capturable
def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    summed_RD, h_RD = out or (None, None)
    h_RD = np.empty_like(x_RD) if h_RD is None else h_RD
    if y_RD is None:
        _queue_rows(x_RD, x_RD[:0], bias_D, norm, x_RD, h_RD)
        return x_RD, h_RD
    summed_RD = np.empty_like(x_RD) if summed_RD is None else summed_RD
    _queue_rows(x_RD, y_RD, bias_D, norm, summed_RD, h_RD)
    return summed_RD, h_RD


def _queue_rows(x_RD, y_RD, bias_D, norm, summed_RD, h_RD):
    """Queues one task per block of rows. If y has no rows, x stays, and only h is written."""
    bias_D, shift_D = or_empty(bias_D, norm.gain_D), or_empty(norm.bias_D, norm.gain_D)
    given = [contiguous_array(a) for a in (x_RD, y_RD, bias_D, norm.gain_D, shift_D)]  # else sums do not run on vectors
    summed_RD = summed_RD if len(y_RD) else given[0]
    tasks, rows_of_task, workers = cut_rows(*x_RD.shape)
    arrays = *given, x_RD.dtype.type(norm.eps), summed_RD, h_RD
    parallel_for(_residual_norm, tasks, (*arrays, rows_of_task), workers)


@in_tasks(**VECTORS)
def _residual_norm(task, x_RD, y_RD, bias_D, gain_D, shift_D, eps, summed_RD, h_RD, rows_of_task):
    """Without rows of y, x is not changed."""
    R, D = x_RD.shape
    for r in range(task * rows_of_task, min((task + 1) * rows_of_task, R)):
        if len(y_RD) and len(bias_D):
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d] + bias_D[d]
        elif len(y_RD):
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d]
        normalise_row(summed_RD, r, gain_D, shift_D, eps, h_RD)
    return DONE
