"""Bias and split into heads in one kernel (LightSeq, section 2.1: `ker_arrange_encself_qkv`).

1. A kernel for each step: the bias is added, then queries, keys and values are copied out, one kernel each. All numbers
   go to memory and come back in between.
2. One kernel adds the bias on the way: each number is read once and written once. The rows are the grid's first axis,
   so that no thread divides to find its place.
3. A thread moves four columns of four rows, by 128-bit loads and stores: its loads are all under way before its first
   store. Rows must begin at multiples of 16 bytes, and queries, keys and values be whole fours of columns.

LightSeq's kernel also puts the heads in front of the rows, as its strided-batched product wants them. Here rows stay in
front: a product reads a head by its row stride, so that there is no need to move it.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64, types

from ..errors import OptionError
from ..reference import empty, in_rows, or_empty
from ..runtime.launch import launch
from ..runtime.low_precision import largest_of
from .common.bias import plus
from .common.cut_off import cut_off
from .common.fours import KEPT, grid_of, lie_in_fours, load_fours, store_fours

THREADS = 128


def split_heads_v1(qkv_RX, bias_X, heads, dtype=None, out=None):
    q_RHK, k_RGK, v_RGU = results(qkv_RX, heads, dtype, out)
    biased_RX = np.empty_like(qkv_RX, order="C")
    launch(plus_bias, per_row(biased_RX), THREADS, qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), biased_RX)
    first = 0
    for part in (q_RHK, k_RGK, v_RGU):
        part_RX = in_rows(part)
        launch(copy_columns, per_row(part_RX), THREADS, biased_RX, first, largest_of(part.dtype), part_RX)
        first += part_RX.shape[1]
    return q_RHK, k_RGK, v_RGU


@cuda.jit
def plus_bias(qkv_RX, bias_X, biased_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < biased_RX.shape[1]:
        biased_RX[r, x] = plus(qkv_RX[r, x], bias_X, x)


@cuda.jit
def copy_columns(biased_RX, first, largest, part_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if x < part_RX.shape[1]:
        part_RX[r, x] = cut_off(biased_RX[r, first + x], largest)


def split_heads_v2(qkv_RX, bias_X, heads, dtype=None, out=None):
    q_RHK, k_RGK, v_RGU = results(qkv_RX, heads, dtype, out)
    parts = map(in_rows, (q_RHK, k_RGK, v_RGU))
    arrays = qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), largest_of(q_RHK.dtype), *parts
    launch(add_and_cut, per_row(qkv_RX), THREADS, *arrays)
    return q_RHK, k_RGK, v_RGU


@cuda.jit
def add_and_cut(qkv_RX, bias_X, largest, q_RX, k_RX, v_RX):
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + k_RX.shape[1]
    if x >= qkv_RX.shape[1]:
        return
    number = cut_off(plus(qkv_RX[r, x], bias_X, x), largest)
    if x < keys:
        q_RX[r, x] = number
    elif x < values:
        k_RX[r, x - keys] = number
    else:
        v_RX[r, x - values] = number


def split_heads(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Version 3; version 2 where columns are no whole fours."""
    parts = results(qkv_RX, heads, dtype, out)
    tables, bias_X = tuple(map(in_rows, parts)), or_empty(bias_X, qkv_RX[:, 0])
    if not lie_in_fours(qkv_RX, bias_X[None], *tables):
        return split_heads_v2(qkv_RX, bias_X, heads, dtype, parts)
    launch(add_and_cut_fours, grid_of(*qkv_RX.shape), THREADS, qkv_RX, bias_X, largest_of(parts[0].dtype), *tables)
    return parts


@cuda.jit
def add_and_cut_fours(qkv_RX, bias_X, largest, q_RX, k_RX, v_RX):
    kept = cuda.local.array(KEPT, float32)
    c, keys = 4 * (cuda.blockIdx.y * THREADS + cuda.threadIdx.x), q_RX.shape[1]
    values = keys + k_RX.shape[1]
    if c >= qkv_RX.shape[1]:
        return
    load_fours(kept, qkv_RX, bias_X, c, c)
    for i in range(KEPT):
        kept[i] = cut_off(kept[i], largest)
    if c < keys:
        store_fours(q_RX, c, kept)
    elif c < values:
        store_fours(k_RX, c - keys, kept)
    else:
        store_fours(v_RX, c - values, kept)


def per_row(x_RX):
    """A grid of so many blocks a row that each number has a thread."""
    R, X = x_RX.shape
    return R, -(-X // THREADS)


def results(qkv_RX, heads, dtype, out):
    """Where queries, keys and values go. Raises OptionError where the kernels do not compute in this type."""
    if qkv_RX.dtype != np.float32:
        raise OptionError(f"the kernels that cut into heads take float32, not {qkv_RX.dtype}: the reference does both")
    R, G = len(qkv_RX), heads.G
    shapes = (R, heads.H, heads.K), (R, G, heads.K), (R, G, heads.U)
    return out or tuple(empty(qkv_RX, shape, dtype) for shape in shapes)


# What each kernel is compiled and type-checked for, without a GPU. A product may be some columns of a wider one.
PRODUCT_RX, ROWS_RX, ROW_X, HALVES_RX = float32[:, :], float32[:, ::1], float32[::1], types.float16[:, ::1]
_CUT = [(PRODUCT_RX, ROW_X, float32, *[part_RX] * 3) for part_RX in (ROWS_RX, HALVES_RX)]
SIGNATURES = {
    plus_bias: [(PRODUCT_RX, ROW_X, ROWS_RX)],
    copy_columns: [(ROWS_RX, int64, float32, part_RX) for part_RX in (ROWS_RX, HALVES_RX)],
    add_and_cut: _CUT,
    add_and_cut_fours: _CUT,
}
REGISTERS = {add_and_cut_fours: 56}
