"""Attention over pages: a table says in which page each position of a row lies (vLLM's PagedAttention).

1. All pages of a row are copied behind each other, and then attended to, kernel by kernel: the copy that the table is
   to save.
2. A block per row and query head, in one pass over the row's positions. The page of a position is looked up when it is
   read, so nothing is copied, and no scores are written. Heads that do not fit take version 1.

Floor: the bytes of keys and values at 2.4 TB/s. GPT-2's 16 rows of 288 positions in float16: 14 MB, 6 us. Predicted
140 us: version 2 has the inner loop of version 2 of indirect.py, which took 136 us, and looks up a page more. Not
measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from .common.attention import (
    BIAS,
    CACHES,
    NUMBERS_X,
    QUERIES_RHK,
    RESULT_RX,
    launch_three_kernels,
    make_result_array,
)
from .common.online_softmax import MINUS_INF, WIDEST, merge_warps, stage_query, take_in_position
from .common.position_bias import bias_arguments, bias_at
from .common.reduction import THREADS, WARPS


def attend_paged_v1(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    """Attention to pages that are copied behind each other first.

    Two launches of `put_pages_in_order`, then three kernels for attention, a thread per number in blocks of 128. For M
    positions of all pages of a row's table, the copy reads (s + 8)RGM(K + U) bytes and writes sRGM(K + U); s: bytes of
    a number of the cache.
    """
    (R, pages), (_, G, M, _), ordered = table_RX.shape, k_XGMK.shape, []
    for pages_XGMX in (k_XGMK, v_XGMU):
        ordered_RGMX = np.empty_like(pages_XGMX, shape=(R, G, pages * M, pages_XGMX.shape[3]))
        blocks = -(-ordered_RGMX.size // THREADS)
        launch(put_pages_in_order, blocks, THREADS, pages_XGMX, table_RX, begin_R, end_R, ordered_RGMX)
        ordered.append(ordered_RGMX)
    return launch_three_kernels(q_RHK, [(*ordered, begin_R, end_R)], scale, out, bias, end_R)


@cuda.jit
def put_pages_in_order(pages_XGMX, table_RX, begin_R, end_R, ordered_RGMX):
    """Copies one number of a row's position from the page that the table names.

    Grid ceil(RGMX / 128), block 128. A thread reads s + 24 bytes and writes s; of a position that is not seen, 16 and
    none.
    """
    R, G, positions, X = ordered_RGMX.shape
    M, i = pages_XGMX.shape[2], cuda.grid(1)
    if i < R * G * positions * X:
        r, g, m, x = i // (G * positions * X), i // (positions * X) % G, i // X % positions, i % X
        if begin_R[r] <= m < end_R[r]:
            ordered_RGMX[r, g, m, x] = pages_XGMX[table_RX[r, m // M], g, m % M, x]


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    """Attention to positions whose pages are looked up as they are read.

    Version 2: `attend_page_by_page` as (R, H) blocks of 128. Reads sRHM(K + U) bytes and 8RHM of the table for M seen
    positions, and writes 4RHU. Heads wider than 256 numbers take version 1.
    """
    if max(k_XGMK.shape[3], v_XGMU.shape[3]) > WIDEST:
        return attend_paged_v1(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias, out)
    a_RX = make_result_array(q_RHK, (k_XGMK, v_XGMU), out)
    biases = bias_arguments(bias, q_RHK, end_R)
    arguments = q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, np.float32(scale), *biases, a_RX
    launch(attend_page_by_page, q_RHK.shape[:2], THREADS, *arguments)
    return a_RX


@cuda.jit
def attend_page_by_page(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias_XHP, bucket_L, zero, a_RX):
    """Online softmax of one row and query head; its four warps take positions by turns.

    Grid (R, H), block 128. Reads sM(K + U) bytes and 8M of the table for M seen positions, and writes 4U.
    """
    query = cuda.shared.array(WIDEST, float32)
    sums = cuda.shared.array((WARPS, WIDEST), float32)
    _, G, M, U = v_XGMU.shape
    r, h, warp = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x // 32
    g = h // (q_RHK.shape[1] // G)
    stage_query(q_RHK[r, h], query, sums)
    running_max, running_sum, added = MINUS_INF, float32(0), float32(0)
    for m in range(begin_R[r] + warp, min(end_R[r], table_RX.shape[1] * M), WARPS):
        page, slot = table_RX[r, m // M], m % M
        if bias_XHP.shape[0]:
            added = bias_at(bias_XHP, bucket_L, r, h, end_R[r] - 1 - m + zero)
        running_max, running_sum = take_in_position(
            query, k_XGMK[page, g, slot], v_XGMU[page, g, slot], scale, added, running_max, running_sum, sums[warp]
        )
    merge_warps(running_max, running_sum, sums, a_RX[r, h * U : (h + 1) * U])


# What each kernel is compiled and type-checked for, without a GPU.
_TABLE = int64[:, ::1]
SIGNATURES = {
    put_pages_in_order: [(m, _TABLE, NUMBERS_X, NUMBERS_X, m) for m in CACHES],
    attend_page_by_page: [(QUERIES_RHK, m, m, _TABLE, NUMBERS_X, NUMBERS_X, float32, *BIAS, RESULT_RX) for m in CACHES],
}
REGISTERS = {attend_page_by_page: 80}  # six blocks of such threads fit into the 65,536 of an SM
