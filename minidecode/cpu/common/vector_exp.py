"""exp compiled for the CPU: as Numba compiles it, it is a call for each number, and this runs on vectors."""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int32

from .atomics import float_of
from .jit import njit

LOG2_E = np.float32(math.log2(math.e))
LN_2_HIGH = np.float32(355 / 512)  # so few bits that k times it is exact, also where a sum of products is rounded twice
LN_2_LOW = np.float32(math.log(2) - 355 / 512)
SERIES = tuple(np.float32(1 / math.factorial(n)) for n in range(8))  # of exp around 0
LEAST = np.float32(-87)  # exp of it is about the smallest normal float32


@njit(cache=True, nogil=True, fastmath={"contract"})
def exp(x):
    """exp of a float32 up to 87: exp(f) 2^k with k whole and |f| < 0.35; below -87 it is 0.

    exp(f) is a short series; 2^k is a float32 whose bits are an exponent and nothing else.
    """
    is_nothing = x < LEAST
    x = LEAST if is_nothing else x
    k = np.floor(x * LOG2_E + float32(0.5))
    f = x - k * LN_2_HIGH - k * LN_2_LOW
    factor = f * SERIES[7] + SERIES[6]
    factor = f * (f * (f * factor + SERIES[5]) + SERIES[4]) + SERIES[3]
    factor = f * (f * (f * factor + SERIES[2]) + SERIES[1]) + SERIES[0]
    return float32(0) if is_nothing else factor * float_of((int32(k) + int32(127)) << int32(23))
