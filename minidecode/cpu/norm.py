"""Residual, bias and layer normalisation in one go (LightSeq, section 2.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..reference import or_empty
from .common.jit import njit

# Sums in any order, so that they run on vectors. A row of zeros with an eps of 0 becomes NaN, as in NumPy: no error.
VECTORS = {"cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """Row by row, so that a row stays in the cache through its three passes."""
    summed_RD, h_RD = out or (None, None)
    h_RD = np.empty_like(x_RD) if h_RD is None else h_RD
    shift_D = or_empty(norm.bias_D, norm.gain_D)
    if y_RD is None:
        _norm(np.ascontiguousarray(x_RD), norm.gain_D, shift_D, x_RD.dtype.type(norm.eps), h_RD)
        return x_RD, h_RD
    summed_RD = np.empty_like(x_RD) if summed_RD is None else summed_RD
    bias_D = or_empty(bias_D, norm.gain_D)
    x_RD, y_RD = np.ascontiguousarray(x_RD), np.ascontiguousarray(y_RD)  # else sums do not run on vectors
    _residual_norm(x_RD, y_RD, bias_D, norm.gain_D, shift_D, x_RD.dtype.type(norm.eps), summed_RD, h_RD)
    return summed_RD, h_RD


@njit(**VECTORS)
def _residual_norm(x_RD, y_RD, bias_D, gain_D, shift_D, eps, summed_RD, h_RD):
    R, D = x_RD.shape
    for r in range(R):
        if len(bias_D):
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d] + bias_D[d]
        else:
            for d in range(D):
                summed_RD[r, d] = x_RD[r, d] + y_RD[r, d]
        normalise_row(summed_RD, r, gain_D, shift_D, eps, h_RD)


@njit(**VECTORS)
def _norm(x_RD, gain_D, shift_D, eps, h_RD):
    for r in range(len(x_RD)):
        normalise_row(x_RD, r, gain_D, shift_D, eps, h_RD)


@njit(**VECTORS)
def normalise_row(x_RD, r, gain_D, shift_D, eps, h_RD):
    """Row r of h: that of x, normalised. With an empty `shift`, by its root mean square alone."""
    D, width = x_RD.shape[1], x_RD.dtype.type(x_RD.shape[1])
    total = x_RD.dtype.type(0)
    if len(shift_D):
        for d in range(D):
            total += x_RD[r, d]
    mean = total / width
    squares = x_RD.dtype.type(0)
    for d in range(D):
        squares += (x_RD[r, d] - mean) ** 2
    spread = np.sqrt(squares / width + eps)
    if len(shift_D):
        for d in range(D):
            h_RD[r, d] = (x_RD[r, d] - mean) / spread * gain_D[d] + shift_D[d]
    else:
        for d in range(D):
            h_RD[r, d] = x_RD[r, d] / spread * gain_D[d]
