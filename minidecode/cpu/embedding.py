"""Token and position embedding with layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array
from ..reference import or_empty
from .common.atomics import are_inside
from .common.normalise import VECTORS, normalise_row
from .common.tasks import in_tasks
from .common.thread_pool import CALLER_ALONE, DONE, OUT_OF_TABLE, REFUSED, parallel_for


@capturable
def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    shape = len(ids_R), wte_VD.shape[1]
    x_RD, h_RD = out or (np.empty(shape, wte_VD.dtype), np.empty(shape, wte_VD.dtype))
    scale, eps = wte_VD.dtype.type(scale), wte_VD.dtype.type(norm.eps)
    ids_R, pos_R = contiguous_array(ids_R, np.int64), contiguous_array(pos_R, np.int64)
    tables = wte_VD, or_empty(wpe_ND, wte_VD)
    gain_D, shift_D = contiguous_array(norm.gain_D), contiguous_array(or_empty(norm.bias_D, norm.gain_D))
    if not parallel_for(_embed_norm, 1, (ids_R, pos_R, *tables, scale, gain_D, shift_D, eps, x_RD, h_RD), CALLER_ALONE):
        raise IndexError(f"{OUT_OF_TABLE}: tokens {ids_R} of {len(wte_VD)}, positions {pos_R} of {len(tables[1])}")
    return x_RD, h_RD


@in_tasks(**VECTORS)
def _embed_norm(task, ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
    """REFUSED where a token or a position is outside of its table."""
    if not (are_inside(ids_R, len(wte_VD)) and (len(wpe_ND) == 0 or are_inside(pos_R, len(wpe_ND)))):
        return REFUSED
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
    return DONE
