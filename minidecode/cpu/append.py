"""A decode step's new position, compiled for the CPU: bias, queries, keys and values into the cache, in one pass."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import append as reference
from .common.activation import no_bias
from .common.atomics import are_inside
from .common.code_paths import COMPILED, NUMPY, count_call
from .common.sums import add_in_place
from .common.tasks import in_tasks
from .common.thread_pool import CALLER_ALONE, DONE, REFUSED, parallel_for

F = np.float32


@capturable
def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None, *, workspace=None):
    """Computes in float32; other dtypes and layouts go to the reference.

    So it does where shapes or positions do not fit: what it raises is raised here too.
    """
    arrays = qkv_RX, k_RGMK, v_RGMU, qkv_RX if out is None else out
    bias_of_X = no_bias(qkv_RX.shape[1]) if bias_X is None else bias_X
    if all(a.dtype == F and a.flags.c_contiguous for a in arrays):
        q_RHK = np.empty((len(qkv_RX), heads.H, heads.K), F) if out is None else out
        kv_shapes = (heads.G, heads.K), (heads.G, heads.U)
        have_heads = (k_RGMK.shape[1::2], v_RGMU.shape[1::2]) == kv_shapes and q_RHK.shape[1:] == (heads.H, heads.K)
        arrays = qkv_RX, contiguous_array(bias_of_X, F), k_RGMK, v_RGMU, contiguous_array(at_R, np.int64), q_RHK
        if have_heads and parallel_for(_append_kv, 1, arrays, CALLER_ALONE):
            count_call(COMPILED)
            return q_RHK
    count_call(NUMPY)
    return reference.append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out, workspace=workspace)


@in_tasks()
def _append_kv(task, qkv_RX, bias_X, k_RGMK, v_RGMU, at_R, q_RHK):
    """REFUSED where lengths differ or a position is outside of the cache."""
    (R, H, K), G, U = q_RHK.shape, v_RGMU.shape[1], v_RGMU.shape[3]
    X, M = H * K + G * (K + U), min(k_RGMK.shape[2], v_RGMU.shape[2])
    if not (len(qkv_RX) == len(at_R) == R <= min(len(k_RGMK), len(v_RGMU)) and qkv_RX.shape[1] == len(bias_X) == X):
        return REFUSED
    if not are_inside(at_R, M):
        return REFUSED
    for r in range(R):
        qkv_X, keys, values = qkv_RX[r], H * K, (H + G) * K
        for h in range(H):
            add_in_place(qkv_X[h * K : h * K + K], bias_X[h * K : h * K + K], q_RHK[r, h])
        for g in range(G):
            k, v = slice(keys + g * K, keys + g * K + K), slice(values + g * U, values + g * U + U)
            add_in_place(qkv_X[k], bias_X[k], k_RGMK[r, g, at_R[r]])
            add_in_place(qkv_X[v], bias_X[v], v_RGMU[r, g, at_R[r]])
    return DONE
