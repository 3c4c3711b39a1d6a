"""A decode step's new position in pages, in one kernel: bias, split into heads, keys and values into the newest page.

1. The heads are cut by the kernels of heads.py's version 1, into arrays of their own; two more kernels look up pages
   and copy keys and values there.
2. One kernel: each number goes from the product to where it stays, with the bias added on the way.

Floor: a launch in a graph, 1.1 us. Predicted 2.1 us: a number waits for its page, which waits for the position. Not
measured.

Pages may be float16: sums are float32, and rounded where they are written. What is beyond float16's range becomes its
largest number; the kernels get that as an argument, infinity for pages of float32. NaN stays NaN.

A position at or beyond the table's end is not written: a captured step may be launched once too often.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64, types

from ..device.launch import launch
from ..device.low_precision import largest_stored_number
from ..errors import OptionError
from ..reference import empty, or_empty, view_as_rows
from .common.bias import with_bias
from .common.cut_off import cut_off
from .common.grids import grid_of_rows
from .common.reduction import THREADS
from .common.split_heads import PRODUCT_RX, ROW_X, ROWS_RX, cut_heads_in_four_launches


def append_paged_v1(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    """Cuts queries, keys and values into arrays of their own, then copies keys and values into their pages.

    Six launches, a thread per number. Reads 12RX + 4RG(K+U) bytes and writes 8RX + sRG(K+U); s: bytes of a number of
    the cache.
    """
    _refuse_other_types(qkv_RX, k_XGMK, v_XGMU)
    q_RHK, *new = cut_heads_in_four_launches(qkv_RX, bias_X, heads)
    for pages_XGMX, new_RGX in zip((k_XGMK, v_XGMU), new, strict=True):
        arrays = new_RGX, table_RX, at_R, pages_XGMX, largest_stored_number(pages_XGMX.dtype)
        launch(write_into_page, grid_of_rows(new_RGX.reshape(len(at_R), -1)), THREADS, *arrays)
    if out is None:
        return q_RHK
    out[...] = q_RHK
    return out


@cuda.jit
def write_into_page(new_RGX, table_RX, at_R, pages_XGMX, largest):
    """Copies one number of new_RGX to position at_R[r] of the row; beyond the end of its table nothing is written.

    Grid (R, ceil(GX / 128)), block 128. A thread reads 20 bytes and writes s.
    """
    _, G, X = new_RGX.shape
    M = pages_XGMX.shape[2]
    r, i = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if i < G * X and at_R[r] < table_RX.shape[1] * M:
        page = table_RX[r, at_R[r] // M]
        pages_XGMX[page, i // X, at_R[r] % M, i % X] = cut_off(new_RGX[r, i // X, i % X], largest)


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    """Adds the bias and stores each number of qkv_RX where it stays: in q_RHK, or in the page of position at_R.

    Version 2: `add_and_append_to_page` as (R, ceil(X / 128)) blocks of 128. Reads 8RX bytes and 16 a row, and writes
    4RHK + sRG(K+U).
    """
    _refuse_other_types(qkv_RX, k_XGMK, v_XGMU)
    q_RHK = empty(qkv_RX, (len(qkv_RX), heads.H, heads.K)) if out is None else out
    arrays = qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), view_as_rows(q_RHK), k_XGMK, v_XGMU, table_RX, at_R
    launch(add_and_append_to_page, grid_of_rows(qkv_RX), THREADS, *arrays, largest_stored_number(k_XGMK.dtype))
    return q_RHK


@cuda.jit
def add_and_append_to_page(qkv_RX, bias_X, q_RX, k_XGMK, v_XGMU, table_RX, at_R, largest):
    """Adds a bias to one number of qkv_RX and stores it: a query in q_RX, a key or a value in its page.

    Grid (R, ceil(X / 128)), block 128. A thread reads 8 bytes, and 16 more for keys and values; it writes 4, or s.
    """
    _, G, M, K = k_XGMK.shape
    U = v_XGMU.shape[3]
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + G * K
    if x >= qkv_RX.shape[1]:
        return
    number = with_bias(qkv_RX[r, x], bias_X, x)
    if x < keys:
        q_RX[r, x] = number
        return
    if at_R[r] >= table_RX.shape[1] * M:
        return
    page, slot = table_RX[r, at_R[r] // M], at_R[r] % M
    if x < values:
        k_XGMK[page, (x - keys) // K, slot, (x - keys) % K] = cut_off(number, largest)
    else:
        v_XGMU[page, (x - values) // U, slot, (x - values) % U] = cut_off(number, largest)


def _refuse_other_types(qkv_RX, k_XGMK, v_XGMU):
    """Raises OptionError where the kernels do not compute in these types."""
    if qkv_RX.dtype != np.float32 or any(m.dtype not in (np.float32, np.float16) for m in (k_XGMK, v_XGMU)):
        raise OptionError(
            f"the kernels of cuda/paged_append.py take float32 products, and pages in float32 or float16, not"
            f" {qkv_RX.dtype} and {k_XGMK.dtype}: the reference takes float64 too"
        )


# What each kernel is compiled and type-checked for, without a GPU.
_CACHES, _NUMBERS, _TABLE = (float32[:, :, :, ::1], types.float16[:, :, :, ::1]), int64[::1], int64[:, ::1]
SIGNATURES = {
    write_into_page: [(float32[:, :, ::1], _TABLE, _NUMBERS, m, float32) for m in _CACHES],
    add_and_append_to_page: [(PRODUCT_RX, ROW_X, ROWS_RX, m, m, _TABLE, _NUMBERS, float32) for m in _CACHES],
}
