"""Local attention over a cache of as many positions as are seen (MQA, section 4.1).

1. The slots are put in order, the oldest position first, and then attended to, kernel by kernel.
2. A block per row and query head, in one pass over the slots as they lie: a sum has no order. A slot's age says whether
   its position is seen. Heads that do not fit take version 1.

Floor: the bytes of the slots at 2.4 TB/s. GPT-2's 16 rows of 288 positions in float16: 14 MB, 6 us. Predicted 136 us:
version 2 has the inner loop of version 2 of indirect.py, which took that. Not measured.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

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


def attend_rolling_v1(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """Local attention to a cache whose slots are copied into the order of their positions first.

    Two launches of `put_in_order`, then three kernels for attention, a thread per number in blocks of 128. The copy
    reads (s + 8)RGM(K + U) bytes and writes sRGM(K + U); s: bytes of a number of the cache.
    """
    M, ordered = k_RGMK.shape[2], [np.empty_like(k_RGMK), np.empty_like(v_RGMU)]
    for slots_RGMX, ordered_RGMX in zip((k_RGMK, v_RGMU), ordered, strict=True):
        launch(put_in_order, -(-slots_RGMX.size // THREADS), THREADS, slots_RGMX, end_R, ordered_RGMX)
    first_R = np.maximum(begin_R - (end_R - M), 0)
    end_of_M_R = np.full_like(end_R, M)
    return launch_three_kernels(q_RHK, [(*ordered, first_R, end_of_M_R)], scale, out, bias, end_of_M_R)


@cuda.jit
def put_in_order(slots_RGMX, end_R, ordered_RGMX):
    """Copies one number of the slot that holds position end - M + m.

    Grid ceil(RGMX / 128), block 128. A thread reads s + 8 bytes and writes s.
    """
    R, G, M, X = slots_RGMX.shape
    i = cuda.grid(1)
    if i < R * G * M * X:
        r, g, m, x = i // (G * M * X), i // (M * X) % G, i // X % M, i % X
        ordered_RGMX[r, g, m, x] = slots_RGMX[r, g, (end_R[r] + m) % M, x]  # position end - M + m


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """Local attention to a cache slot by slot, as they lie; a slot's age says whether it is seen.

    Version 2: `attend_slot_by_slot` as (R, H) blocks of 128. Reads up to sRHM(K + U) bytes and writes 4RHU. Heads wider
    than 256 numbers take version 1.
    """
    if max(k_RGMK.shape[3], v_RGMU.shape[3]) > WIDEST:
        return attend_rolling_v1(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias, out)
    a_RX = make_result_array(q_RHK, (k_RGMK, v_RGMU), out)
    biases = bias_arguments(bias, q_RHK, end_R)
    arguments = q_RHK, k_RGMK, v_RGMU, begin_R, end_R, np.float32(scale), *biases, a_RX
    launch(attend_slot_by_slot, q_RHK.shape[:2], THREADS, *arguments)
    return a_RX


@cuda.jit
def attend_slot_by_slot(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias_XHP, bucket_L, zero, a_RX):
    """Online softmax of one row and query head; its four warps take slots by turns.

    Grid (R, H), block 128. Reads up to sM(K + U) bytes and writes 4U.
    """
    query = cuda.shared.array(WIDEST, float32)
    sums = cuda.shared.array((WARPS, WIDEST), float32)
    _, G, M, U = v_RGMU.shape
    r, h, warp = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x // 32
    g = h // (q_RHK.shape[1] // G)
    stage_query(q_RHK[r, h], query, sums)
    seen, newest = end_R[r] - begin_R[r], (end_R[r] - 1) % M
    running_max, running_sum, added = MINUS_INF, float32(0), float32(0)
    for slot in range(warp, M, WARPS):
        age = newest - slot if slot <= newest else newest - slot + M
        if age < seen:
            if bias_XHP.shape[0]:
                added = bias_at(bias_XHP, bucket_L, r, h, age + zero)
            running_max, running_sum = take_in_position(
                query, k_RGMK[r, g, slot], v_RGMU[r, g, slot], scale, added, running_max, running_sum, sums[warp]
            )
    merge_warps(running_max, running_sum, sums, a_RX[r, h * U : (h + 1) * U])


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {
    put_in_order: [(m, NUMBERS_X, m) for m in CACHES],
    attend_slot_by_slot: [(QUERIES_RHK, m, m, NUMBERS_X, NUMBERS_X, float32, *BIAS, RESULT_RX) for m in CACHES],
}
REGISTERS = {attend_slot_by_slot: 80}  # six blocks of such threads fit into the 65,536 of an SM
