"""Low-precision numbers (float16, int8) that compiled code reads and casts in a register: weights, float16 caches.

Numba has no float16 on the CPU. Compiled code gets the bits of halves as integers of 16 bits (tile.py).
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from .jit import njit
from .tile import float_of_half


def view_as_bits(array):
    """The array as compiled code takes it: of float16 the bits, everything else as it is."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


@intrinsic
def half_to_float(typing_context, bits):
    """The float32 of a float16 given by its bits."""

    def emit_cast(context, builder, signature, arguments):
        return float_of_half(builder, arguments[0])

    return types.float32(types.uint16), emit_cast


def f32(number):
    """The number as it is computed with: float32 of the bits of a float16 and of an int8, floats as they are."""


@overload(f32, inline="always")
def _f32_by_type(number):
    if number == types.uint16:
        return lambda number: half_to_float(number)
    if isinstance(number, types.Float):
        return lambda number: number
    return lambda number: np.float32(number)


def cast_all(to, stored):
    """The numbers of a block of weights or of a cache: NumPy's own way is slow for float16."""
    if stored.ndim == 2:
        return _cast(view_as_bits(stored), to)
    for to_XX, stored_XX in zip(to, stored, strict=True):
        cast_all(to_XX, stored_XX)


@njit(cache=True, nogil=True)
def _cast(stored_XX, float_XX):
    for k in range(len(stored_XX)):
        stored_X, float_X = stored_XX[k], float_XX[k]
        for i in range(len(stored_X)):
            float_X[i] = f32(stored_X[i])
