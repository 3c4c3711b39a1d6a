"""What follows the product of queries, keys and values, compiled for the CPU: the bias, and the cut into heads.

NumPy makes three passes on one thread. Here a row is read once, and the worker threads share the rows of a prompt.
"""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import heads as reference
from .common.activation import no_bias
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.sums import add_in_place
from .common.tasks import in_tasks
from .common.thread_pool import DONE, REFUSED, cut_rows, parallel_for

F = np.float32


@capturable
def split_heads(qkv_RX, bias_X, heads, dtype=None, out=None):
    """In float32; where numbers are of another dtype, or lie otherwise or in another shape, the reference does it."""
    R, X = qkv_RX.shape
    shapes = (R, heads.H, heads.K), (R, heads.G, heads.K), (R, heads.G, heads.U)
    results = tuple(np.empty(shape, F) for shape in shapes) if out is None else out
    arrays = qkv_RX, contiguous_array(no_bias(X) if bias_X is None else bias_X, F), *results
    tasks, rows_of_task, workers = cut_rows(R, X)
    if (
        dtype in (None, F)
        and all(a.dtype == F and a.flags.c_contiguous for a in arrays)
        and tuple(a.shape for a in results) == shapes
        and parallel_for(_split_heads, tasks, (*arrays, rows_of_task), workers)
    ):
        count_call(COMPILED)
        return results
    count_call(NUMPY)
    return reference.split_heads(qkv_RX, bias_X, heads, dtype, out)


@in_tasks()
def _split_heads(task, qkv_RX, bias_X, q_RHK, k_RGK, v_RGU, rows_of_task):
    """To each of the three, its columns and their bias. REFUSED where the product has other columns than the heads."""
    R, X = qkv_RX.shape
    if len(bias_X) != X or q_RHK.size + k_RGK.size + v_RGU.size != R * X:
        return REFUSED
    begin = 0
    for part in (q_RHK, k_RGK, v_RGU):
        part_RX = part.reshape(R, part.shape[1] * part.shape[2])
        end = begin + part_RX.shape[1]
        for r in range(task * rows_of_task, min((task + 1) * rows_of_task, R)):
            add_in_place(qkv_RX[r, begin:end], bias_X[begin:end], part_RX[r])
        begin = end
    return DONE
