"""Low-precision numbers (float16, int8) that compiled code reads and casts in a register: weights, float16 caches.

Numba has no float16 on the CPU. Compiled code gets the bits of halves as whole numbers of 16 bits (tile.py).
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from .jit import njit
from .tile import float_of_half


def in_bits(array):
    """The array as compiled code takes it: of float16 the bits, everything else as it is."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


@intrinsic
def half_to_float(typing_context, bits):
    """The float32 of a float16 given by its bits."""

    def code(context, builder, signature, arguments):
        return float_of_half(builder, arguments[0])

    return types.float32(types.uint16), code


def wide(number):
    """The number as it is computed with: float32 of the bits of a float16 and of an int8, floats as they are."""


@overload(wide, inline="always")
def _wide_by_type(number):
    if number == types.uint16:
        return lambda number: half_to_float(number)
    if isinstance(number, types.Float):
        return lambda number: number
    return lambda number: np.float32(number)


def widen_all(to, narrow):
    """The numbers of a block of weights or of a cache: NumPy's own way is slow for float16."""
    if narrow.ndim == 2:
        return _widen(in_bits(narrow), to)
    for to_XX, narrow_XX in zip(to, narrow, strict=True):
        widen_all(to_XX, narrow_XX)


@njit(cache=True, nogil=True)
def _widen(narrow_XX, wide_XX):
    for k in range(len(narrow_XX)):
        narrow_X, wide_X = narrow_XX[k], wide_XX[k]
        for i in range(len(narrow_X)):
            wide_X[i] = wide(narrow_X[i])
