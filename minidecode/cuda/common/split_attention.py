"""Attention to a prompt and a row's own positions, kernel by kernel or with a position bias (split.py, grouped.py)."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32

from ...device.launch import launch
from .attention import BIAS, CACHES, NUMBERS_X, QUERIES_RHK, RESULT_RX, launch_three_kernels, make_result_array
from .online_softmax import MINUS_INF, WIDEST, merge_warps, stage_query, take_in_position
from .position_bias import bias_at
from .reduction import THREADS, WARPS


def launch_split_in_three_kernels(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    """Attention to a prompt and to own positions by way of all scores, a thread for each number of each result.

    Five launches in blocks of 128. Reads (4 + s)RH(N + T)(K + U) bytes for the products and 12RH(N + T) for the
    softmax; s: bytes of a number of the cache.
    """
    prompt_end_B = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2])
    parts = [(prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B), (k_RGTK, v_RGTU, begin_R, end_R)]
    return launch_three_kernels(q_RHK, parts, scale, out, bias, end_R, ahead=prompt_k_BGNK.shape[2])


def launch_split_with_bias(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias, out=None
):
    """Attention to a prompt and to own positions with a position bias, a block per row and query head.

    Launches `split_biased` as (R, H) blocks of 128. Each beam reads the prompt: sRH(N + T)(K + U) bytes and
    12RH(N + T) of biases. Heads that do not fit are attended to in three kernels.
    """
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R
    if max(k_RGTK.shape[3], v_RGTU.shape[3]) > WIDEST:
        return launch_split_in_three_kernels(q_RHK, *cache, scale, bias, out)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    biases = bias.bias_XHP, bias.bucket_L, bias.zero
    launch(split_biased, q_RHK.shape[:2], THREADS, q_RHK, *cache, np.float32(scale), *biases, a_RX)
    return a_RX


@cuda.jit
def split_biased(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias_XHP, bucket_L,
    zero, a_RX,
):  # fmt: skip
    """Online softmax of one row and query head; its four warps take positions by turns.

    Grid (R, H), block 128. Reads (N + T)(s(K + U) + 12) bytes and writes 4U.
    """
    query = cuda.shared.array(WIDEST, float32)
    sums = cuda.shared.array((WARPS, WIDEST), float32)
    (R, H, _), (B, G, N, U) = q_RHK.shape, prompt_v_BGNU.shape
    r, h, warp = cuda.blockIdx.x, cuda.blockIdx.y, cuda.threadIdx.x // 32
    b, g = r // (R // B), h // (H // G)
    stage_query(q_RHK[r, h], query, sums)
    running_max, running_sum, newest = MINUS_INF, float32(0), end_R[r] - 1 + zero
    for n in range(prompt_begin_B[b] + warp, N, WARPS):
        bias = bias_at(bias_XHP, bucket_L, r, h, N + newest - n)
        running_max, running_sum = take_in_position(
            query, prompt_k_BGNK[b, g, n], prompt_v_BGNU[b, g, n], scale, bias, running_max, running_sum, sums[warp]
        )
    for t in range(begin_R[r] + warp, min(end_R[r], k_RGTK.shape[2]), WARPS):
        bias = bias_at(bias_XHP, bucket_L, r, h, newest - t)
        running_max, running_sum = take_in_position(
            query, k_RGTK[r, g, t], v_RGTU[r, g, t], scale, bias, running_max, running_sum, sums[warp]
        )
    merge_warps(running_max, running_sum, sums, a_RX[r, h * U : (h + 1) * U])


# What each kernel is compiled and type-checked for, without a GPU.
SIGNATURES = {
    split_biased: [
        (QUERIES_RHK, m, m, NUMBERS_X, m, m, NUMBERS_X, NUMBERS_X, float32, *BIAS, RESULT_RX) for m in CACHES
    ]
}
REGISTERS = {split_biased: 80}
