"""Attention of one row over a cache of its own, whose key/value heads may serve several query heads each (MQA).

The kernels take X caches, each of which serves R/X rows. Here X = R; shared.py has a cache for each sentence.

1. Scores, softmax and weighted sums are three kernels. All scores go to global memory and come back, twice.
2. A warp per row and query head goes over the positions once: of the scores only a tile is there at a time, and
   nothing is written but the result. Neighbouring lanes read keys a row apart, and each query head reads them again.
3. A block per memory and key/value head: a tile of keys, then of values, is staged in shared memory, by loads that lie
   side by side, and serves the query heads of the group in all rows of the cache: QUERIES of them at the most, further
   ones read it again.
4. Where that makes few blocks and there are many positions, each block takes a range of them and writes what it has
   found there; a second kernel merges. Otherwise version 3; heads that do not fit take version 2.
5. Version 5 of split.py, for rows whose prompt is empty. Heads whose width is no power of two of 128-bit loads take
   version 4.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..runtime.launch import launch
from . import split
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
    accumulate,
    accumulate_all,
    block_buffers,
    divide,
    grid_for,
    is_wide,
    my_tile,
    result,
    scratch_for_ranges,
    set_to_zero,
    split_kv,
    stage_queries,
    three_kernels,
    write_answers,
    write_partials,
)
from .common.warp_attention import are_wide, launch_warps


def attend_v1(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    return three_kernels(q_RHK, [(k_RGMK, v_RGMU, begin_R, end_R)], scale, out, bias, end_R)


def attend_v2(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    a_RX = result(q_RHK, (k_RGMK, v_RGMU), out)
    cache, rows_and_heads = (k_RGMK, v_RGMU, begin_R, end_R), q_RHK.shape[0] * q_RHK.shape[1]
    launch(block_per_head, rows_and_heads, 32, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def block_per_head(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, a_RX):
    weights = cuda.shared.array(TILE, float32)
    R, H, _ = q_RHK.shape
    X, G, _, U = v_XGMU.shape
    r, h = cuda.blockIdx.x // H, cuda.blockIdx.x % H
    x, g = r // (R // X), h // (H // G)
    a_U = a_RX[r, h * U : (h + 1) * U]
    set_to_zero(a_U)
    _, total = accumulate(
        q_RHK[r, h], k_XGMK[x, g], v_XGMU[x, g], begin_X[x], end_X[x], scale, MINUS_INF, float32(0), weights, a_U
    )
    divide(a_U, total)


def attend_v3(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    """Heads that do not fit take version 2."""
    if is_wide(k_RGMK, v_RGMU):
        return attend_v2(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out)
    a_RX, cache = result(q_RHK, (k_RGMK, v_RGMU), out), (k_RGMK, v_RGMU, begin_R, end_R)
    launch(block_per_cache, grid_for(q_RHK, k_RGMK), THREADS, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit(launch_bounds=BOUNDS)
def block_per_cache(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, a_RX):
    x, g, count, tile_head = my_tile(q_RHK, k_XGMK)
    buffers = block_buffers()
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_all(k_XGMK[x, g], v_XGMU[x, g], begin_X[x], end_X[x], 0, count, scale, buffers)
    write_answers(buffers, tile_head, count, v_XGMU.shape[3], a_RX)


def attend_v4(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None, *, workspace=None):
    """Where there are few blocks and many positions."""
    a_RX, cache = result(q_RHK, (k_RGMK, v_RGMU), out), (k_RGMK, v_RGMU, begin_R, end_R)
    M = k_RGMK.shape[2]
    partials_XRHX = scratch_for_ranges(q_RHK, k_RGMK, v_RGMU, M, workspace)
    if partials_XRHX is None:
        return attend_v3(q_RHK, *cache, scale, a_RX)
    return split_kv(block_per_range, grid_for(q_RHK, k_RGMK), q_RHK, cache, scale, M, partials_XRHX, a_RX)


@cuda.jit(launch_bounds=BOUNDS)
def block_per_range(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, length, partials_XRHX):
    x, g, count, tile_head = my_tile(q_RHK, k_XGMK)
    buffers = block_buffers()
    begin = max(begin_X[x], cuda.blockIdx.z * length)
    end = min(end_X[x], (cuda.blockIdx.z + 1) * length)
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_all(k_XGMK[x, g], v_XGMU[x, g], begin, end, 0, count, scale, buffers)
    write_partials(buffers, tile_head, count, v_XGMU.shape[3], partials_XRHX[cuda.blockIdx.z])


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None, *, workspace=None):
    """Version 5, or 4 for heads of other widths. With a position bias, split.py's kernel for that."""
    cache = k_RGMK, v_RGMU, begin_R, end_R
    no_prompt = k_RGMK[:, :, :0], v_RGMU[:, :, :0], begin_R  # each row is a sentence whose prompt is empty
    if bias is not None:
        return split.split_with_bias(q_RHK, *no_prompt, *cache, scale, bias, out)
    a_RX = result(q_RHK, (k_RGMK, v_RGMU), out)
    if not are_wide(q_RHK, k_RGMK, v_RGMU):
        return attend_v4(q_RHK, *cache, scale, a_RX, workspace=workspace)
    return launch_warps(q_RHK, no_prompt, cache, scale, a_RX, workspace)


# What each kernel is compiled and type-checked for, without a GPU.
ARGUMENTS = (QUERIES_RHK, CACHES[1], CACHES[1], NUMBERS_X, NUMBERS_X, float32)  # of float16, which asks for more
SIGNATURES = {kernel: [(*ARGUMENTS, RESULT_RX)] for kernel in (block_per_head, block_per_cache)}
SIGNATURES[block_per_range] = [(*ARGUMENTS, int64, PARTIALS_XRHX)]
REGISTERS = dict.fromkeys(SIGNATURES, 96)
