"""A decode step's new position in pages, compiled for the CPU: bias, queries, keys and values in one pass."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import paged_append as reference
from .common.activation import no_bias
from .common.atomics import are_inside
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.sums import add_in_place
from .common.tasks import in_tasks
from .common.thread_pool import CALLER_ALONE, DONE, REFUSED, parallel_for

F = np.float32


@capturable
def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None, *, workspace=None):
    """In float32; where numbers or pages are of another dtype, or lie otherwise, the reference does it.

    So it does where positions or pages do not fit: what it raises is raised here too.
    """
    q_RHK = np.empty((len(qkv_RX), heads.H, heads.K), F) if out is None else out
    if all(a.dtype == F and a.flags.c_contiguous for a in (qkv_RX, k_XGMK, v_XGMU, q_RHK)):
        bias_of_X = no_bias(qkv_RX.shape[1]) if bias_X is None else bias_X
        numbers = contiguous_array(table_RX, np.int64), contiguous_array(at_R, np.int64)
        arrays = qkv_RX, contiguous_array(bias_of_X, F), k_XGMK, v_XGMU, *numbers, q_RHK
        if parallel_for(_append, 1, arrays, CALLER_ALONE):
            count_call(COMPILED)
            return q_RHK
    count_call(NUMPY)
    return reference.append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out, workspace=workspace)


@in_tasks()
def _append(task, qkv_RX, bias_X, k_XGMK, v_XGMU, table_RX, at_R, q_RHK):
    """REFUSED, and nothing is written, where shapes, positions or pages do not fit."""
    (R, H, K), (X, G, M, U) = q_RHK.shape, v_XGMU.shape
    keys, values, q_RX = H * K, (H + G) * K, q_RHK.reshape(R, H * K)
    if k_XGMK.shape != (X, G, M, K) or qkv_RX.shape != (R, values + G * U) or len(bias_X) != qkv_RX.shape[1]:
        return REFUSED
    if len(table_RX) != R or len(at_R) != R or not are_inside(at_R, table_RX.shape[1] * M):
        return REFUSED
    for r in range(R):
        if not 0 <= table_RX[r, at_R[r] // M] < X:
            return REFUSED
    for r in range(R):
        qkv_X, page, slot = qkv_RX[r], table_RX[r, at_R[r] // M], at_R[r] % M
        add_in_place(qkv_X[:keys], bias_X[:keys], q_RX[r])
        for g in range(G):
            k, v = slice(keys + g * K, keys + g * K + K), slice(values + g * U, values + g * U + U)
            add_in_place(qkv_X[k], bias_X[k], k_XGMK[page, g, slot])
            add_in_place(qkv_X[v], bias_X[v], v_XGMU[page, g, slot])
    return DONE
