"""A decode step's new position in one kernel: bias, split into heads, keys and values into the cache.

This is LightSeq's `ker_arrange_decself_qkv` (section 2.1).

1. The heads are cut by the kernels of heads.py's version 1, into arrays of their own; two more kernels copy keys and
   values to their positions.
2. One kernel: each number goes from the product to where it stays, with the bias added on the way. Rows of one head
   lie G * M * K numbers apart in the cache, so that a warp writes pieces of K neighbouring numbers.
3. A thread moves four columns of four rows, by 128-bit loads and stores, as in version 3 of heads.py. Heads must be
   whole fours of columns, and all rows begin at multiples of 16 bytes; others take version 2.

Floor: the bytes read and written at 2.4 TB/s; for a decode step a launch in a graph, 1.1 us: 4 rows of GPT-2 move
0.1 MB. Predicted 1.6 us for few rows: one load waits. On 1 GB the goal is 85 % of a copy's bandwidth, and
`minidecode predict append` gives 82 %: memory alone allows 100 %, L2 183 %, L1 346 %, waits 451 %, instructions 452 %.
For version 2 it gives 54 %. Not measured by itself.

The cache may be float16: sums are float32, and rounded where they are written. What is beyond its range becomes its
largest number; the kernels get that as an argument, infinity for a cache of float32. NaN stays NaN.

A position at or beyond the cache's room is not written: a captured step may be launched once too often.
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
from .common.fours import KEPT, ROWS, are_whole_fours, grid_of_fours, load_fours, store_fours
from .common.grids import grid_of_rows
from .common.reduction import THREADS
from .common.split_heads import PRODUCT_RX, ROW_X, ROWS_RX, cut_heads_in_four_launches
from .common.vector_load import wide_store


def append_kv_v1(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    """Cuts queries, keys and values into arrays of their own, then copies keys and values to position at_R.

    Six launches, a thread per number. Reads 12RX + 4RG(K+U) bytes and writes 8RX + sRG(K+U); s: bytes of a number of
    the cache.
    """
    refuse_other_types(qkv_RX, k_RGMK, v_RGMU)
    q_RHK, *new = cut_heads_in_four_launches(qkv_RX, bias_X, heads)
    for cache_RGMX, new_RGX in zip((k_RGMK, v_RGMU), new, strict=True):
        arrays = new_RGX, at_R, cache_RGMX, largest_stored_number(cache_RGMX.dtype)
        launch(write_position, grid_of_rows(new_RGX.reshape(len(at_R), -1)), THREADS, *arrays)
    if out is None:
        return q_RHK
    out[...] = q_RHK
    return out


@cuda.jit
def write_position(new_RGX, at_R, cache_RGMX, largest):
    """Copies new_RGX to position at_R[r] of each row of the cache; what lies beyond the cache is not written.

    Grid (R, ceil(GX / 128)), block 128. Reads 4RGX bytes and at_R, and writes sRGX.
    """
    _, G, X = new_RGX.shape
    r, i = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    if i < G * X and at_R[r] < cache_RGMX.shape[2]:
        cache_RGMX[r, i // X, at_R[r], i % X] = cut_off(new_RGX[r, i // X, i % X], largest)


def append_kv_v2(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    """Adds the bias and stores each number of qkv_RX where it stays: in q_RHK, or at position at_R of the cache.

    Version 2: `add_and_append` as (R, ceil(X / 128)) blocks of 128. Reads 8RX bytes and at_R, and writes 4RHK +
    sRG(K+U).
    """
    q_RHK, arrays = _prepare_append(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out)
    launch(add_and_append, grid_of_rows(qkv_RX), THREADS, *arrays, largest_stored_number(k_RGMK.dtype))
    return q_RHK


def _prepare_append(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out):
    """(q_RHK, what the kernels take)."""
    refuse_other_types(qkv_RX, k_RGMK, v_RGMU)
    q_RHK = empty(qkv_RX, (len(qkv_RX), heads.H, heads.K)) if out is None else out
    return q_RHK, (qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), view_as_rows(q_RHK), k_RGMK, v_RGMU, at_R)


@cuda.jit
def add_and_append(qkv_RX, bias_X, q_RX, k_RGMK, v_RGMU, at_R, largest):
    """Adds a bias to one number of qkv_RX and stores it: a query in q_RX, a key or a value at position at_R[r].

    Grid (R, ceil(X / 128)), block 128. A thread reads 8 bytes, and 8 of at_R for keys and values; it writes 4, or s.
    """
    G, K, U = k_RGMK.shape[1], k_RGMK.shape[3], v_RGMU.shape[3]
    r, x = cuda.blockIdx.x, cuda.blockIdx.y * THREADS + cuda.threadIdx.x
    keys = q_RX.shape[1]
    values = keys + G * K
    if x >= qkv_RX.shape[1]:
        return
    number = with_bias(qkv_RX[r, x], bias_X, x)
    if x < keys:
        q_RX[r, x] = number
    elif at_R[r] >= k_RGMK.shape[2]:
        return
    elif x < values:
        k_RGMK[r, (x - keys) // K, at_R[r], (x - keys) % K] = cut_off(number, largest)
    else:
        v_RGMU[r, (x - values) // U, at_R[r], (x - values) % U] = cut_off(number, largest)


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    """Adds the bias and stores queries and the new position of the cache, four columns of four rows a thread.

    Version 3: `add_and_append_fours` as (ceil(R / 4), ceil(X / 512)) blocks of 128. Reads 5RX bytes and at_R, and
    writes 4RHK + sRG(K+U). Version 2 where heads are no whole fours, or their rows do not begin at multiples of 16
    bytes.
    """
    q_RHK, arrays = _prepare_append(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out)
    _, of_bias_X, q_RX, *_ = arrays
    if not are_whole_fours(qkv_RX, of_bias_X, q_RX, k_RGMK, v_RGMU):
        return append_kv_v2(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, q_RHK)
    launch(add_and_append_fours, grid_of_fours(*qkv_RX.shape), THREADS, *arrays, largest_stored_number(k_RGMK.dtype))
    return q_RHK


@cuda.jit
def add_and_append_fours(qkv_RX, bias_X, q_RX, k_RGMK, v_RGMU, at_R, largest):
    """Adds biases to four columns of four rows and stores them in q_RX, or at position at_R[r] of the cache.

    Grid (ceil(R / 4), ceil(X / 512)), block 128. A thread reads 80 bytes, and 32 of at_R for keys and values; it writes
    64, or 16s.
    """
    kept = cuda.local.array(KEPT, float32)
    c, keys = 4 * (cuda.blockIdx.y * THREADS + cuda.threadIdx.x), q_RX.shape[1]
    values = keys + k_RGMK.shape[1] * k_RGMK.shape[3]
    if c >= qkv_RX.shape[1]:
        return
    load_fours(kept, qkv_RX, bias_X, c, c)
    if c < keys:
        store_fours(q_RX, c, kept)
        return
    for i in range(KEPT):
        kept[i] = cut_off(kept[i], largest)
    if c < values:
        store_columns_in_cache(k_RGMK, at_R, c - keys, kept)
    else:
        store_columns_in_cache(v_RGMU, at_R, c - values, kept)


@cuda.jit(device=True)
def store_columns_in_cache(cache_RGMX, at_R, c, kept):
    """Stores columns c to c + 3 of all heads, of this block's rows, at position at_R[r]; none beyond the room."""
    R, _, M, X = cache_RGMX.shape
    g, x = c // X, c % X
    for i in range(ROWS):
        r = cuda.blockIdx.x * ROWS + i
        if r < R and at_R[r] < M:
            wide_store(cache_RGMX[r, g, at_R[r]], x, kept[4 * i], kept[4 * i + 1], kept[4 * i + 2], kept[4 * i + 3])


def refuse_other_types(qkv_RX, k_RGMK, v_RGMU):
    """Raises OptionError unless the product is float32, and the cache float32 or float16."""
    if qkv_RX.dtype != np.float32 or any(m.dtype not in (np.float32, np.float16) for m in (k_RGMK, v_RGMU)):
        raise OptionError(
            f"the kernels of cuda/append.py take float32 products, and caches in float32 or float16, not"
            f" {qkv_RX.dtype} and {k_RGMK.dtype}: the reference takes float64 too"
        )


# What each kernel is compiled and type-checked for, without a GPU.
_CACHES, _PLACES = (float32[:, :, :, ::1], types.float16[:, :, :, ::1]), int64[::1]
SIGNATURES = {
    write_position: [(float32[:, :, ::1], _PLACES, m, float32) for m in _CACHES],
    **{
        kernel: [(PRODUCT_RX, ROW_X, ROWS_RX, m, m, _PLACES, float32) for m in _CACHES]
        for kernel in (add_and_append, add_and_append_fours)
    },
}
REGISTERS = {add_and_append_fours: 56}
