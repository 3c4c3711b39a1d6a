"""Attention that looks up where a row's own positions lie (FasterTransformer's cache indirection).

1. Everything is put where it would lie if the rows had been moved, and then attended to, kernel by kernel: the copy
   that the table is to save, at every step instead of at every change of places.
2. A block per row and query head, in one pass over the prompt's positions and the row's own. A position's place is
   looked up when it is read, so nothing is copied, and no scores are written. Heads that do not fit take
   version 1.
3. Version 5 of split.py with the table: a block serves all beams of a sentence, so that the prompt is read once, and
   warps read keys and values by 128-bit loads. Heads whose width is no power of two of such loads take version 2.

Floor of version 3: the bytes of keys and values at 2.4 TB/s. GPT-2's 4 sentences of 4 beams, 256 + 32 positions in
float16: 4.7 MB, 1.9 us. Predicted 4.5 us: the 4 us of split.py, and an entry of the table that keys wait for. Measured
(H100, 2026-11-26, before that day's last changes): 16.3 us, 12 %. With 8 warps and one query a block the same kernel
took 9.3 us, 21 %. Version 2 took 136 us.
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
from .common.warp_attention import can_load_wide, launch_warps


def attend_indirect_v1(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    """Attention to a prompt and to own positions that a table finds, which are copied into their order first.

    Two launches of `gather_through_table`, then three kernels for attention, a thread per number in blocks of 128. The
    copy reads (s + 24)RGT(K + U) bytes and writes sRGT(K + U); s: bytes of a number of the cache.
    """
    gathered = [np.empty_like(k_RGTK), np.empty_like(v_RGTU)]
    for own_RGTX, gathered_RGTX in zip((k_RGTK, v_RGTU), gathered, strict=True):
        launch(
            gather_through_table, -(-own_RGTX.size // THREADS), THREADS,
            own_RGTX, indirection_RT, begin_R, end_R, gathered_RGTX,
        )  # fmt: skip
    prompt_end_B = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2])
    parts = [(prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B), (*gathered, begin_R, end_R)]
    return launch_three_kernels(q_RHK, parts, scale, out, bias, end_R, ahead=prompt_k_BGNK.shape[2])


@cuda.jit
def gather_through_table(own_RGTX, indirection_RT, begin_R, end_R, gathered_RGTX):
    """Copies one number of a row's own position from the row that the table names.

    Grid ceil(RGTX / 128), block 128. A thread reads s + 24 bytes and writes s; of a position that is not seen, 16 and
    none.
    """
    R, G, T, X = own_RGTX.shape
    i = cuda.grid(1)
    if i < R * G * T * X:
        r, g, t, x = i // (G * T * X), i // (T * X) % G, i // X % T, i % X
        if begin_R[r] <= t < end_R[r]:
            gathered_RGTX[r, g, t, x] = own_RGTX[indirection_RT[r, t], g, t, x]


def attend_indirect_v2(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    """Attention to a prompt and to own positions that a table finds, looked up as they are read.

    Launches `look_up_and_attend` as (R, H) blocks of 128. Reads sRH(N + T)(K + U) bytes and 8RHT of the table, and
    writes 4RHU. Heads wider than 256 numbers take version 1.
    """
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R
    if max(k_RGTK.shape[3], v_RGTU.shape[3]) > WIDEST:
        return attend_indirect_v1(q_RHK, *cache, scale, bias, out)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    biases = bias_arguments(bias, q_RHK, end_R)
    launch(look_up_and_attend, q_RHK.shape[:2], THREADS, q_RHK, *cache, np.float32(scale), *biases, a_RX)
    return a_RX


@cuda.jit
def look_up_and_attend(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias_XHP, bucket_L, zero, a_RX,
):  # fmt: skip
    """Online softmax of one row and query head; its four warps take positions by turns.

    Grid (R, H), block 128. Reads s(N + T)(K + U) bytes and 8T of the table, and writes 4U.
    """
    query = cuda.shared.array(WIDEST, float32)
    sums = cuda.shared.array((WARPS, WIDEST), float32)
    (R, H, _), (B, G, N, U) = q_RHK.shape, prompt_v_BGNU.shape
    r, h, warp = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x // 32
    b, g = r // (R // B), h // (H // G)
    stage_query(q_RHK[r, h], query, sums)
    running_max, running_sum, added = MINUS_INF, float32(0), float32(0)
    for n in range(prompt_begin_B[b] + warp, N, WARPS):
        if bias_XHP.shape[0]:
            added = bias_at(bias_XHP, bucket_L, r, h, N + end_R[r] - 1 - n + zero)
        running_max, running_sum = take_in_position(
            query, prompt_k_BGNK[b, g, n], prompt_v_BGNU[b, g, n], scale, added, running_max, running_sum, sums[warp]
        )
    for t in range(begin_R[r] + warp, min(end_R[r], k_RGTK.shape[2]), WARPS):
        row = indirection_RT[r, t]
        if bias_XHP.shape[0]:
            added = bias_at(bias_XHP, bucket_L, r, h, end_R[r] - 1 - t + zero)
        running_max, running_sum = take_in_position(
            query, k_RGTK[row, g, t], v_RGTU[row, g, t], scale, added, running_max, running_sum, sums[warp]
        )
    merge_warps(running_max, running_sum, sums, a_RX[r, h * U : (h + 1) * U])


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None, *, workspace=None,
):  # fmt: skip
    """Attention to a prompt and to own positions that a table finds, by warps with 128-bit loads.

    Version 3 (`launch_warps`): reads sBGN(K + U) bytes of prompts for each block of queries, sRGT(K + U) of own
    positions and 8RGT of the table. Version 2 for heads of other widths and with a position bias.
    """
    prompt, generated = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B), (k_RGTK, v_RGTU, begin_R, end_R)
    if bias is not None or not can_load_wide(q_RHK, k_RGTK, v_RGTU, prompt_k_BGNK, prompt_v_BGNU):
        cache = *prompt, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R
        return attend_indirect_v2(q_RHK, *cache, scale, bias, out)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    return launch_warps(q_RHK, prompt, generated, scale, a_RX, workspace, indirection_RT)


# What each kernel is compiled and type-checked for, without a GPU.
_TABLE = int64[:, ::1]
SIGNATURES = {
    gather_through_table: [(m, _TABLE, NUMBERS_X, NUMBERS_X, m) for m in CACHES],
    look_up_and_attend: [
        (QUERIES_RHK, m, m, NUMBERS_X, m, m, _TABLE, NUMBERS_X, NUMBERS_X, float32, *BIAS, RESULT_RX) for m in CACHES
    ],
}
REGISTERS = {look_up_and_attend: 80}  # six blocks of such threads fit into the 65,536 of an SM
