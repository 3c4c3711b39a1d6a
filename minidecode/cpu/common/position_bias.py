"""A position bias as compiled code takes it: arrays of one type, which are empty where there is no bias.

None would be another type to Numba, and every function that has it as an argument would be compiled twice.
"""

from __future__ import annotations

import functools

import numpy as np

from ...device.capture import contiguous_array
from .jit import njit


def bias_arrays(bias, dtype):
    """(bias_XHP, bucket_L, zero) of a bias, or of none; read-only, as weights are."""
    if bias is None:
        return _empty_bias_arguments(np.dtype(dtype))
    bias_XHP, bucket_L = contiguous_array(bias.bias_XHP, dtype), contiguous_array(bias.bucket_L, np.int64)
    return _read_only(bias_XHP), _read_only(bucket_L), bias.zero


@functools.cache
def _empty_bias_arguments(dtype):
    """Made once: each layer of each step asks for it."""
    return _read_only(np.empty((0, 0, 0), dtype)), _read_only(np.empty(0, np.int64)), 0


def _read_only(array):
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True)
def add_bias(scores_M, bias_P, bucket_L, place):
    """Adds to column m the bias of entry place - m of the table; beyond either end, of the end."""
    last = len(bucket_L) - 1
    for m in range(len(scores_M)):
        scores_M[m] += bias_P[bucket_L[min(max(place - m, 0), last)]]
