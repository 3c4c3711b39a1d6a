"""Bias and rotation of queries and keys in one pass, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import rotation as reference
from .common.activation import no_bias
from .common.atomics import are_inside
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.jit import njit
from .common.sums import add_in_place
from .common.tasks import in_tasks
from .common.thread_pool import CALLER_ALONE, DONE, REFUSED, parallel_for

F = np.float32


@capturable
def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None, *, workspace=None):
    """In float32; where numbers are of another dtype, or lie otherwise, the reference does it.

    So it does where a position is outside of the table: what it raises is raised here too.
    """
    y_RX = np.empty(qkv_RX.shape, F) if out is None else out
    bias_of_X = no_bias(qkv_RX.shape[1]) if bias_X is None else bias_X
    given = qkv_RX, turns_NK, y_RX
    arrays = (
        qkv_RX,
        contiguous_array(bias_of_X, F),
        contiguous_array(pos_R, np.int64),
        turns_NK,
        heads.H + heads.G,
        y_RX,
    )
    is_ours = all(a.dtype == F and a.flags.c_contiguous for a in given)
    if is_ours and parallel_for(_rotate_heads, 1, arrays, CALLER_ALONE):
        count_call(COMPILED)
        return y_RX
    count_call(NUMPY)
    return reference.rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out, workspace=workspace)


@in_tasks()
def _rotate_heads(task, qkv_RX, bias_X, pos_R, turns_NK, heads, y_RX):
    """REFUSED where a position is outside of the table of turns."""
    if not are_inside(pos_R, len(turns_NK)):
        return REFUSED
    K = turns_NK.shape[1]
    half, turned = K // 2, heads * K
    for r in range(len(qkv_RX)):
        qkv_X, y_X, turn_K = qkv_RX[r], y_RX[r], turns_NK[pos_R[r]]
        for first in range(0, turned, K):
            a, b = slice(first, first + half), slice(first + half, first + K)
            _rotate_pairs(qkv_X[a], bias_X[a], qkv_X[b], bias_X[b], turn_K[:half], turn_K[half:], y_X[a], y_X[b])
        add_in_place(qkv_X[turned:], bias_X[turned:], y_X[turned:])
    return DONE


@njit(cache=True, nogil=True)
def _rotate_pairs(a_I, a_bias_I, b_I, b_bias_I, cos_I, sin_I, a_out_I, b_out_I):
    """A function of its own, of one loop: it runs on vectors."""
    for i in range(len(a_out_I)):
        a, b = a_I[i] + a_bias_I[i], b_I[i] + b_bias_I[i]
        a_out_I[i] = a * cos_I[i] - b * sin_I[i]
        b_out_I[i] = b * cos_I[i] + a * sin_I[i]
