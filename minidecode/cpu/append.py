"""A decode step's new position, compiled for the CPU: bias, queries, keys and values into the cache, in one pass."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous
from ..reference import append as reference
from .common.activation import no_bias
from .common.atomics import are_inside, array_at
from .common.code_paths import COMPILED, NUMPY, ran
from .common.jit import njit
from .common.thread_pool import CALLER_ALONE, DONE, OUTSIDE, REFUSED, parallel_for, schedule

F = np.float32


@capturable
def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None, *, workspace=None):
    """In float32; where numbers or the cache are of another dtype, or lie otherwise, the reference does it.

    So it does where shapes or positions do not fit: what it raises is raised here too.
    """
    arrays = qkv_RX, k_RGMK, v_RGMU, qkv_RX if out is None else out
    bias_of_X = no_bias(qkv_RX.shape[1]) if bias_X is None else bias_X
    if all(a.dtype == F and a.flags.c_contiguous for a in arrays):
        q_RHK = np.empty((len(qkv_RX), heads.H, heads.K), F) if out is None else out
        kv_shapes = (heads.G, heads.K), (heads.G, heads.U)
        have_heads = (k_RGMK.shape[1::2], v_RGMU.shape[1::2]) == kv_shapes and q_RHK.shape[1:] == (heads.H, heads.K)
        arrays = qkv_RX, contiguous(bias_of_X, F), k_RGMK, v_RGMU, contiguous(at_R, np.int64), q_RHK
        if have_heads and parallel_for(_append, arrays, _task_of_append, CALLER_ALONE):
            ran(COMPILED)
            return q_RHK
    ran(NUMPY)
    return reference.append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out, workspace=workspace)


@njit(cache=True, nogil=True)
def _append(qkv_RX, bias_X, k_RGMK, v_RGMU, at_R, q_RHK, function, table):
    """Queues one task; REFUSED where lengths differ or a position is outside of the cache."""
    (R, H, K), G, U = q_RHK.shape, v_RGMU.shape[1], v_RGMU.shape[3]
    X, M, N = H * K + G * (K + U), k_RGMK.shape[2], v_RGMU.shape[2]
    if not (len(qkv_RX) == len(at_R) == R <= min(len(k_RGMK), len(v_RGMU)) and qkv_RX.shape[1] == len(bias_X) == X):
        return REFUSED
    if not are_inside(at_R, min(M, N)):
        return REFUSED
    args = (
        np.int64(qkv_RX.ctypes.data), np.int64(bias_X.ctypes.data), np.int64(k_RGMK.ctypes.data),
        np.int64(v_RGMU.ctypes.data), np.int64(at_R.ctypes.data), np.int64(q_RHK.ctypes.data), R, H, K, G, U, M, N,
    )  # fmt: skip
    return schedule(1, function, args, table)


@njit(cache=True, nogil=True)
def _task_of_append(args, task):
    """OUTSIDE where a position is outside of the cache: a captured step is not checked by `_append`."""
    qkv, bias, k, v, at, q, R, H, K, G, U, M, N = array_at(args, 0, (13,))
    X, at_R = H * K + G * (K + U), array_at(at, 0, (R,))
    if not are_inside(at_R, min(M, N)):
        return OUTSIDE
    _append_kv(
        array_at(qkv, F(0), (R, X)), array_at(bias, F(0), (X,)), array_at(k, F(0), (R, G, M, K)),
        array_at(v, F(0), (R, G, N, U)), at_R, array_at(q, F(0), (R, H, K)),
    )  # fmt: skip
    return DONE


@njit(cache=True, nogil=True)
def _append_kv(qkv_RX, bias_X, k_RGMK, v_RGMU, at_R, q_RHK):
    (R, H, K), G, U = q_RHK.shape, v_RGMU.shape[1], v_RGMU.shape[3]
    for r in range(R):
        qkv_X, keys, values = qkv_RX[r], H * K, (H + G) * K
        for h in range(H):
            _add(qkv_X[h * K : h * K + K], bias_X[h * K : h * K + K], q_RHK[r, h])
        for g in range(G):
            k, v = slice(keys + g * K, keys + g * K + K), slice(values + g * U, values + g * U + U)
            _add(qkv_X[k], bias_X[k], k_RGMK[r, g, at_R[r]])
            _add(qkv_X[v], bias_X[v], v_RGMU[r, g, at_R[r]])


@njit(cache=True, nogil=True)
def _add(a_X, b_X, sum_X):
    for i in range(len(sum_X)):
        sum_X[i] = a_X[i] + b_X[i]
