"""Bias and split into heads in one kernel (LightSeq, section 2.1: `ker_arrange_encself_qkv`).

1. A kernel for each step: the bias is added, then queries, keys and values are copied out, one kernel each. All numbers
   go to memory and come back in between.
2. One kernel adds the bias on the way: each number is read once and written once. The rows are the grid's first axis,
   so that no thread divides to find its place.
3. A thread moves four columns of four rows, by 128-bit loads and stores: its loads are all under way before its first
   store. Rows must begin at multiples of 16 bytes, and queries, keys and values be whole fours of columns.

Floor: the bytes read and written at 2.4 TB/s; for a decode step a launch in a graph, 1.1 us. Predicted 1.6 us for few
rows. On 1 GB the goal is 85 % of a copy's bandwidth, and `minidecode predict heads` gives 83 %: memory alone allows
100 %, L2 183 %, L1 383 %, instructions 413 %, waits 882 %. Not measured by itself.

LightSeq's kernel also puts the heads in front of the rows, as its strided-batched product wants them. Here rows stay in
front: a product reads a head by its row stride, so that there is no need to move it.
"""

from __future__ import annotations

from numba import cuda, float32

from ..device.launch import launch
from ..device.low_precision import largest_stored_number
from ..reference import or_empty, view_as_rows
from .common.cut_off import cut_off
from .common.fours import KEPT, are_whole_fours, grid_of_fours, load_fours, store_fours
from .common.grids import grid_of_rows
from .common.reduction import THREADS
from .common.split_heads import CUT, add_and_cut, cut_heads_in_four_launches, make_head_arrays


def split_heads_v1(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Cuts q_RHK, k_RGK and v_RGU out of qkv_RX: the bias is added by one kernel, each part copied by another.

    Four launches, a thread per number. Reads 12RX bytes and writes 4RX and the parts' sRX; s: bytes of a number of a
    part.
    """
    return cut_heads_in_four_launches(qkv_RX, bias_X, heads, dtype, out)


def split_heads_v2(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Cuts q_RHK, k_RGK and v_RGU out of qkv_RX in one kernel that adds the bias on the way.

    Launches `add_and_cut` as (R, ceil(X / 128)) blocks of 128. Reads 8RX bytes and writes sRX.
    """
    q_RHK, k_RGK, v_RGU = make_head_arrays(qkv_RX, heads, dtype, out)
    parts = map(view_as_rows, (q_RHK, k_RGK, v_RGU))
    arrays = qkv_RX, or_empty(bias_X, qkv_RX[:, 0]), largest_stored_number(q_RHK.dtype), *parts
    launch(add_and_cut, grid_of_rows(qkv_RX), THREADS, *arrays)
    return q_RHK, k_RGK, v_RGU


def split_heads(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Cuts q_RHK, k_RGK and v_RGU out of qkv_RX, four columns of four rows a thread.

    Version 3: `add_and_cut_fours` as (ceil(R / 4), ceil(X / 512)) blocks of 128. Reads 5RX bytes and writes sRX.
    Version 2 where columns are no whole fours.
    """
    parts = make_head_arrays(qkv_RX, heads, dtype, out)
    tables, bias_X = tuple(map(view_as_rows, parts)), or_empty(bias_X, qkv_RX[:, 0])
    if not are_whole_fours(qkv_RX, bias_X, *tables):
        return split_heads_v2(qkv_RX, bias_X, heads, dtype, parts)
    launch(
        add_and_cut_fours,
        grid_of_fours(*qkv_RX.shape),
        THREADS,
        qkv_RX,
        bias_X,
        largest_stored_number(parts[0].dtype),
        *tables,
    )
    return parts


@cuda.jit
def add_and_cut_fours(qkv_RX, bias_X, largest, q_RX, k_RX, v_RX):
    """Adds biases to four columns of four rows and stores them in the part that they belong to.

    Grid (ceil(R / 4), ceil(X / 512)), block 128. A thread reads 80 bytes and writes 16s.
    """
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


SIGNATURES = {add_and_cut_fours: CUT}  # for which it is compiled and type-checked, without a GPU
REGISTERS = {add_and_cut_fours: 56}
