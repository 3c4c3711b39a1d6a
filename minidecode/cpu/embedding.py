"""Token and position embedding with layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..reference import or_empty
from .common.jit import njit
from .norm import VECTORS, normalise_row


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    for index_R, table in (ids_R, wte_VD), (pos_R, wpe_ND):
        if table is not None and len(index_R) and (index_R.min() < 0 or index_R.max() >= len(table)):
            raise IndexError(f"rows {index_R} of {len(table)}")
    shape = len(ids_R), wte_VD.shape[1]
    x_RD, h_RD = out or (np.empty(shape, wte_VD.dtype), np.empty(shape, wte_VD.dtype))
    scale, eps = wte_VD.dtype.type(scale), wte_VD.dtype.type(norm.eps)
    wpe_ND, shift_D = or_empty(wpe_ND, wte_VD), or_empty(norm.bias_D, norm.gain_D)
    _embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm.gain_D, shift_D, eps, x_RD, h_RD)
    return x_RD, h_RD


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
