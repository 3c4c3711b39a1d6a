"""A row normalised on vectors: a piece of norm.py and embedding.py."""

from __future__ import annotations

import numpy as np

from .jit import REORDER, njit

# Sums in any order, so that they run on vectors. A row of zeros with an eps of 0 becomes NaN, as in NumPy: no error.
VECTORS = {"cache": True, "error_model": "numpy", "fastmath": REORDER}


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
