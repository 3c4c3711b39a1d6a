"""Token and position embedding with layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous, in_numpy
from ..reference import or_empty
from .common.atomics import are_inside, array_at, bits_of, float_of
from .common.jit import njit
from .common.normalise import VECTORS, normalise_row
from .common.thread_pool import CALLER_ALONE, DONE, OUT_OF_TABLE, OUTSIDE, parallel_for, schedule


@capturable
def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    for index_R, table in (ids_R, wte_VD), (pos_R, wpe_ND):
        if table is not None and len(index_R) and (index_R.min() < 0 or index_R.max() >= len(table)):
            raise IndexError(f"{OUT_OF_TABLE}: rows {index_R} of {len(table)}")
    shape = len(ids_R), wte_VD.shape[1]
    x_RD, h_RD = out or (np.empty(shape, wte_VD.dtype), np.empty(shape, wte_VD.dtype))
    scale, eps = wte_VD.dtype.type(scale), wte_VD.dtype.type(norm.eps)
    wpe_ND, shift_D = or_empty(wpe_ND, wte_VD), or_empty(norm.bias_D, norm.gain_D)
    arrays = ids_R, pos_R, wte_VD, wpe_ND, scale, contiguous(norm.gain_D), contiguous(shift_D), eps, x_RD, h_RD
    if wte_VD.dtype == np.float32 and all(a.flags.c_contiguous for a in (wte_VD, wpe_ND, x_RD, h_RD)):
        ids_R, pos_R = contiguous(ids_R, np.int64), contiguous(pos_R, np.int64)
        parallel_for(_embedding_of_floats, (ids_R, pos_R, *arrays[2:]), _task_of_embedding, CALLER_ALONE)
    else:
        in_numpy("arrays are not float32 and in order")
        _embed_norm(*arrays)
    return x_RD, h_RD


@njit(cache=True, nogil=True)
def _embedding_of_floats(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD, function, table):
    """Queues one task."""
    (V, D), N = wte_VD.shape, len(wpe_ND)
    args = (
        np.int64(ids_R.ctypes.data), np.int64(pos_R.ctypes.data), np.int64(wte_VD.ctypes.data),
        np.int64(wpe_ND.ctypes.data), np.int64(bits_of(scale)), np.int64(gain_D.ctypes.data),
        np.int64(shift_D.ctypes.data), np.int64(bits_of(eps)), np.int64(x_RD.ctypes.data), np.int64(h_RD.ctypes.data),
        len(ids_R), V, D, N, len(shift_D),
    )  # fmt: skip
    return schedule(1, function, args, table)


@njit(**VECTORS)
def _task_of_embedding(args, task):
    """OUTSIDE where a token or a position is outside of its table: a captured step is not checked by Python."""
    ids, pos, wte, wpe, scale, gain, shift, eps, x, h, R, V, D, N, shifts = array_at(args, 0, (15,))
    zero, ids_R, pos_R = np.float32(0), array_at(ids, 0, (R,)), array_at(pos, 0, (R,))
    if not (are_inside(ids_R, V) and (N == 0 or are_inside(pos_R, N))):
        return OUTSIDE
    _embed_norm(
        ids_R, pos_R, array_at(wte, zero, (V, D)), array_at(wpe, zero, (N, D)), float_of(np.int32(scale)),
        array_at(gain, zero, (D,)), array_at(shift, zero, (shifts,)), float_of(np.int32(eps)),
        array_at(x, zero, (R, D)), array_at(h, zero, (R, D)),
    )  # fmt: skip
    return DONE


@njit(**VECTORS)
def _embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
    R, D = x_RD.shape
    for r in range(R):
        token = ids_R[r]
        if len(wpe_ND):
            position = pos_R[r]
            for d in range(D):
                x_RD[r, d] = scale * wte_VD[token, d] + wpe_ND[position, d]
        else:
            for d in range(D):
                x_RD[r, d] = scale * wte_VD[token, d]
        normalise_row(x_RD, r, gain_D, shift_D, eps, h_RD)
