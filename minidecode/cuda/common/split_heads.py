"""A product cut into queries, keys and values: kernels of heads.py, append.py and cross_kv.py.

Floor of `add_and_cut` for few rows: a launch in a graph, 1.1 us. Predicted 1.6 us: one load waits; and 55 % of a copy's
bandwidth on 1 GB by its loads of 4 bytes, as version 2 of beam_scores.py. Not measured by itself.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64, types

from ...device.launch import launch
from ...device.low_precision import largest_stored_number
from ...errors import OptionError
from ...reference import empty, or_empty, view_as_rows
from .bias import with_bias
from .cut_off import cut_off
from .grids import grid_of_rows
from .reduction import THREADS


def cut_heads_in_four_launches(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Queries, keys and values of qkv_RX by four launches: the bias is added into an array, each part copied out of it.

    Reads 12RX bytes and writes 4RX and the parts' sRX; s: bytes of a number of a part.
    """
    q_RHK, k_RGK, v_RGU = make_head_arrays(qkv_RX, heads, dtype, out)
    biased_RX = np.empty_like(qkv_RX, order="C")
    launch(add_bias_per_number, grid_of_rows(biased_RX), THREADS, qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), biased_RX)
    first = 0
    for part in (q_RHK, k_RGK, v_RGU):
        part_RX = view_as_rows(part)
        launch(
            copy_columns, grid_of_rows(part_RX), THREADS, biased_RX, first, largest_stored_number(part.dtype), part_RX
        )
        first += part_RX.shape[1]
    return q_RHK, k_RGK, v_RGU


@cuda.jit
def add_bias_per_number(qkv_RX, bias_X, biased_RX):
    """Adds a bias to one number of qkv_RX.

    Grid (R, ceil(X / 128)), block 128. A thread reads 8 bytes and writes 4.
    """
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < biased_RX.shape[1]:
        biased_RX[r, x] = with_bias(qkv_RX[r, x], bias_X, x)


@cuda.jit
def copy_columns(biased_RX, first, largest, part_RX):
    """Copies one number of the columns from `first` on, cut off at what the part's dtype holds.

    Grid (R, ceil(width of the part / 128)), block 128. A thread reads 4 bytes and writes s.
    """
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < part_RX.shape[1]:
        part_RX[r, x] = cut_off(biased_RX[r, first + x], largest)


@cuda.jit
def add_and_cut(qkv_RX, bias_X, largest, q_RX, k_RX, v_RX):
    """Adds a bias to one number of qkv_RX and stores it among queries, keys or values.

    Grid (R, ceil(X / 128)), block 128. A thread reads 8 bytes and writes s.
    """
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + k_RX.shape[1]
    if x >= qkv_RX.shape[1]:
        return
    number = cut_off(with_bias(qkv_RX[r, x], bias_X, x), largest)
    if x < keys:
        q_RX[r, x] = number
    elif x < values:
        k_RX[r, x - keys] = number
    else:
        v_RX[r, x - values] = number


def make_head_arrays(qkv_RX, heads, dtype, out):
    """Makes arrays for queries, keys and values. Raises OptionError where kernels do not compute in this type."""
    if qkv_RX.dtype != np.float32:
        raise OptionError(f"the kernels that cut into heads take float32, not {qkv_RX.dtype}: the reference does both")
    R, G = len(qkv_RX), heads.G
    shapes = (R, heads.H, heads.K), (R, G, heads.K), (R, G, heads.U)
    return out or tuple(empty(qkv_RX, shape, dtype) for shape in shapes)


# What each kernel is compiled and type-checked for, without a GPU. A product may be some columns of a wider one.
PRODUCT_RX, ROWS_RX, ROW_X, HALVES_RX = float32[:, :], float32[:, ::1], float32[::1], types.float16[:, ::1]
PARTS = ROWS_RX, HALVES_RX, float32[:, :], types.float16[:, :]  # the last two are columns of a wider array
CUT = [(PRODUCT_RX, ROW_X, float32, *[part_RX] * 3) for part_RX in PARTS]
SIGNATURES = {
    add_bias_per_number: [(PRODUCT_RX, ROW_X, ROWS_RX)],
    copy_columns: [(ROWS_RX, int64, float32, part_RX) for part_RX in PARTS],
    add_and_cut: CUT,
}
