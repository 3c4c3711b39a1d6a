"""Attention over a prompt that the beams of a sentence share, and over what each has generated (FastSeq, 4.1.1).

1. Equation 3 as it stands: scores of both parts into one array, a softmax over it, and the weighted sums of both parts,
   added: five kernels.
2. A warp per row and query head goes over the prompt's positions, then over the row's own; each beam reads the prompt.
3. A block per sentence and key/value head: the prompt, staged in shared memory, is read once for all beams and for all
   query heads of the group, as long as these are at most QUERIES together: each further QUERIES of them read it again.
   Then each beam's own positions for that beam.
4. Where that makes few blocks and there are many positions, each block takes a range of them, prompt and own as if they
   lay one behind the other, and a second kernel merges what was found. Otherwise version 3; heads wider than version 3
   has room for take version 2.
5. No tile in shared memory and no barrier on the way: each warp takes a few positions at a time by 128-bit loads into
   registers, where they meet four beams' queries (common/warp_attention.py). Heads whose width is no power of two of
   such loads take version 4. Where blocks are few and positions many, they take ranges too, and a second launch merges:
   in one launch the last block would need a counter that is 0 before, and to set it takes a launch as well.

Floor of version 5: the bytes of keys and values at 2.4 TB/s. GPT-2's 4 sentences of 4 beams in float16: 4.7 MB, 1.9 us,
at 256 + 32 positions; 16 MB, 6.6 us, at 900 + 100. Predicted 4 us for the first (common/warp_attention.py) and 8.8 us
for the second, which is the goal, 75 %. Measured (H100, 2026-11-26, before that day's last changes): 13.9 us, 14 %, and
17.7 us, 37 %; one greedy row 3.9 us at 32 + 16 positions and 6.8 us at 32 + 256. With 8 warps and one query a block the
same kernel took 8.0 us (24 %) and 13.4 us (49 %). Version 4 took 104 and 246 us.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from .common.attention import (
    BOUNDS,
    CACHES,
    MINUS_INF,
    NUMBERS_X,
    PARTIALS_XRHX,
    QUERIES_RHK,
    RESULT_RX,
    THREADS,
    TILE,
    accumulate_for_queries,
    accumulate_positions,
    divide_by_weights,
    find_tile_of_block,
    grid_for,
    has_wide_heads,
    launch_split_kv,
    make_block_buffers,
    make_result_array,
    row_and_head_of_query,
    scratch_for_ranges,
    set_to_zero,
    stage_queries,
    write_answers,
    write_partials,
)
from .common.split_attention import launch_split_in_three_kernels, launch_split_with_bias
from .common.warp_attention import can_load_wide, launch_warps


def attend_split_v1(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    """Attention to a prompt that beams share and to own positions, kernel by kernel over all scores.

    Five launches, a thread for each number of each result, in blocks of 128. Reads (4 + s)RH(N + T)(K + U) bytes for
    the products and 12RH(N + T) for the softmax; s: bytes of a number of the cache.
    """
    cache = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R
    return launch_split_in_three_kernels(q_RHK, *cache, scale, bias, out)


def attend_split_v2(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None
):
    """Attention to a prompt that beams share and to own positions, a warp per row and query head.

    Launches `split_per_head` in RH blocks of 32. Reads sRH(N + T)(K + U) bytes and writes 4RHU.
    """
    cache = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    launch(split_per_head, q_RHK.shape[0] * q_RHK.shape[1], 32, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def split_per_head(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, a_RX):
    """Goes over the prompt, then over the row's own positions, tile by tile.

    Grid RH, block 32. Reads s(N + T)(K + U) bytes of the cache and 4K of the query for each position; writes 4U, and
    rescales them once a tile.
    """
    weights = cuda.shared.array(TILE, float32)
    R, H, _ = q_RHK.shape
    B, G, N, U = prompt_v_BGNU.shape
    r, h = cuda.blockIdx.x // H, cuda.blockIdx.x % H
    b, g = r // (R // B), h // (H // G)
    q_K, a_U = q_RHK[r, h], a_RX[r, h * U : (h + 1) * U]
    set_to_zero(a_U)
    running_max, running_sum = accumulate_positions(
        q_K, prompt_k_BGNK[b, g], prompt_v_BGNU[b, g], prompt_begin_B[b], N, scale, MINUS_INF, float32(0), weights, a_U
    )
    _, running_sum = accumulate_positions(
        q_K, k_RGTK[r, g], v_RGTU[r, g], begin_R[r], end_R[r], scale, running_max, running_sum, weights, a_U
    )
    divide_by_weights(a_U, running_sum)


def attend_split_v3(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None
):
    """Attention to a prompt that a block stages for all beams of a sentence, then to each beam's own positions.

    Launches `split_per_sentence` as (BG, ceil(RH / (16BG))) blocks of 128. Reads sBGN(K + U) bytes of prompts for each
    16 queries and sRGT(K + U) of own positions. Heads that do not fit take version 2.
    """
    cache = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R)
    if has_wide_heads(k_RGTK, v_RGTU):
        return attend_split_v2(q_RHK, *cache, scale, out)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    launch(split_per_sentence, grid_for(q_RHK, prompt_k_BGNK), THREADS, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit(launch_bounds=BOUNDS)
def split_per_sentence(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, a_RX
):
    """Stages tiles of a prompt for up to 16 queries, then the own positions of each of their rows.

    Grid (BG, blocks of queries), block 128. Reads s(K + U) bytes a position of the prompt and of each row, and writes
    4U a query.
    """
    b, g, count, tile_head = find_tile_of_block(q_RHK, prompt_k_BGNK)
    buffers = make_block_buffers()
    N, U = prompt_v_BGNU.shape[2], prompt_v_BGNU.shape[3]
    stage_queries(q_RHK, tile_head, count, U, buffers)
    accumulate_for_queries(prompt_k_BGNK[b, g], prompt_v_BGNU[b, g], prompt_begin_B[b], N, 0, count, scale, buffers)
    accumulate_own(k_RGTK, v_RGTU, begin_R, end_R, 0, k_RGTK.shape[2], g, tile_head, count, scale, buffers)
    write_answers(buffers, tile_head, count, U, a_RX)


@cuda.jit(device=True)
def accumulate_own(k_RGTK, v_RGTU, begin_R, end_R, earliest, latest, g, tile_head, count, scale, buffers):
    """Row by row, for the queries of that row alone: what it has generated, from position earliest to latest."""
    _, head, per_group, _ = tile_head
    first = 0
    while first < count:
        r, h = row_and_head_of_query(first, tile_head)
        last = min(count, first + per_group - (h - head))  # where the next row's queries begin
        begin, end = max(begin_R[r], earliest), min(end_R[r], latest)
        accumulate_for_queries(k_RGTK[r, g], v_RGTU[r, g], begin, end, first, last, scale, buffers)
        first = last


def attend_split_v4(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None, *,
    workspace=None,
):  # fmt: skip
    """Attention to a prompt and to own positions, with blocks for ranges where blocks are few and positions many.

    Launches `split_per_range` as (BG, blocks of queries, ranges) blocks and `merge_ranges`, of 128. Reads what version
    3 does; partial results take 4(U + 2) bytes a range and query.
    """
    cache = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    M = prompt_k_BGNK.shape[2] + k_RGTK.shape[2]
    partials_XRHX = scratch_for_ranges(q_RHK, prompt_k_BGNK, prompt_v_BGNU, M, workspace)
    if partials_XRHX is None:
        return attend_split_v3(q_RHK, *cache, scale, a_RX)
    return launch_split_kv(split_per_range, grid_for(q_RHK, prompt_k_BGNK), q_RHK, cache, scale, M, partials_XRHX, a_RX)


@cuda.jit(launch_bounds=BOUNDS)
def split_per_range(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, length, partials_XRHX
):
    """Stages the part of prompt and own positions that lies in a range, and writes what queries have found there.

    Grid (BG, blocks of queries, ranges), block 128. Reads s(K + U) bytes a position, and writes 4(U + 2) a query.
    """
    b, g, count, tile_head = find_tile_of_block(q_RHK, prompt_k_BGNK)
    buffers = make_block_buffers()
    N, U = prompt_v_BGNU.shape[2], prompt_v_BGNU.shape[3]
    earliest, latest = cuda.blockIdx.z * length, (cuda.blockIdx.z + 1) * length
    begin, end = max(prompt_begin_B[b], earliest), min(N, latest)
    stage_queries(q_RHK, tile_head, count, U, buffers)
    accumulate_for_queries(prompt_k_BGNK[b, g], prompt_v_BGNU[b, g], begin, end, 0, count, scale, buffers)
    accumulate_own(k_RGTK, v_RGTU, begin_R, end_R, earliest - N, latest - N, g, tile_head, count, scale, buffers)
    write_partials(buffers, tile_head, count, U, partials_XRHX[cuda.blockIdx.z])


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None, *,
    workspace=None,
):  # fmt: skip
    """Attention to a prompt that beams share and to own positions, by warps with 128-bit loads.

    Version 5 (`launch_warps`): reads sBGN(K + U) bytes of prompts for each block of queries and sRGT(K + U) of own
    positions, and writes 4RHU. Version 4 for heads of other widths; with a position bias, `launch_split_with_bias`.
    """
    cache = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R)
    a_RX = make_result_array(q_RHK, (prompt_k_BGNK, prompt_v_BGNU, k_RGTK, v_RGTU), out)
    if bias is not None:
        return launch_split_with_bias(q_RHK, *cache, scale, bias, a_RX)
    if not can_load_wide(q_RHK, k_RGTK, v_RGTU, prompt_k_BGNK, prompt_v_BGNU):
        return attend_split_v4(q_RHK, *cache, scale, a_RX, workspace=workspace)
    return launch_warps(q_RHK, cache[:3], cache[3:], scale, a_RX, workspace)


# What each kernel is compiled and type-checked for, without a GPU.
ARGUMENTS = (QUERIES_RHK, *[CACHES[1]] * 2, NUMBERS_X, *[CACHES[1]] * 2, NUMBERS_X, NUMBERS_X, float32)  # of float16
SIGNATURES = {kernel: [(*ARGUMENTS, RESULT_RX)] for kernel in (split_per_head, split_per_sentence)}
SIGNATURES[split_per_range] = [(*ARGUMENTS, int64, PARTIALS_XRHX)]
REGISTERS = dict.fromkeys(SIGNATURES, 96)
