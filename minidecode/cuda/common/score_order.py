"""Scores as integers that are ordered as the scores are: a piece of the kernels that find a threshold by halving."""

from __future__ import annotations

import numpy as np
from numba import cuda, int64

LOWEST, HIGHEST = np.int64(-(2**31)), np.int64(2**31 - 1)  # of integers that stand for scores
MINUS_ZERO = np.int64(np.float32(-0.0).view(np.int32))


@cuda.jit(device=True)
def ordered_bits_of(bits):
    """The bits of a float32 as an integer that is ordered as the floats are; see reference/top_p.py."""
    bits = int64(bits)
    if bits == MINUS_ZERO:
        return int64(0)
    return bits if bits >= 0 else bits ^ HIGHEST
