"""Attention of R rows over X caches, each of which serves R/X rows: kernels of grouped.py (X = R) and shared.py."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ...device.launch import launch
from .attention import (
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
    scratch_for_ranges,
    set_to_zero,
    stage_queries,
    write_answers,
    write_partials,
)


def launch_warp_per_head(q_RHK, cache, scale, out=None):
    """a_RX over X caches, a warp per row and query head that reads the cache for itself.

    Launches `block_per_head` in RH blocks of 32. Reads sRHM(K + U) bytes; s: bytes of a number of the cache. cache:
    (k_XGMK, v_XGMU, begin_X, end_X), here and below.
    """
    a_RX = make_result_array(q_RHK, cache[:2], out)
    launch(block_per_head, q_RHK.shape[0] * q_RHK.shape[1], 32, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit
def block_per_head(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, a_RX):
    """Scores, softmax and weighted sums of one row and query head, tile by tile.

    Grid RH, block 32. Reads sM(K + U) bytes of the cache and 4K of the query for each position; writes 4U, and rescales
    them once a tile.
    """
    weights = cuda.shared.array(TILE, float32)
    R, H, _ = q_RHK.shape
    X, G, _, U = v_XGMU.shape
    r, h = cuda.blockIdx.x // H, cuda.blockIdx.x % H
    x, g = r // (R // X), h // (H // G)
    a_U = a_RX[r, h * U : (h + 1) * U]
    set_to_zero(a_U)
    _, total = accumulate_positions(
        q_RHK[r, h], k_XGMK[x, g], v_XGMU[x, g], begin_X[x], end_X[x], scale, MINUS_INF, float32(0), weights, a_U
    )
    divide_by_weights(a_U, total)


def launch_block_per_cache(q_RHK, cache, scale, out=None):
    """a_RX over X caches, a block per cache and key/value head that stages it for all its queries.

    Launches `block_per_cache` as (XG, ceil(RH / (16XG))) blocks of 128. Reads sXGM(K + U) bytes for each 16 queries of
    a cache. Heads that do not fit take version 2.
    """
    if has_wide_heads(*cache[:2]):
        return launch_warp_per_head(q_RHK, cache, scale, out)
    a_RX = make_result_array(q_RHK, cache[:2], out)
    launch(block_per_cache, grid_for(q_RHK, cache[0]), THREADS, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit(launch_bounds=BOUNDS)
def block_per_cache(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, a_RX):
    """Stages tiles of a cache in shared memory and sums them for up to 16 queries that share it.

    Grid (XG, blocks of queries), block 128. Reads sM(K + U) bytes of the cache, 4K a query, and writes 4U a query.
    """
    x, g, count, tile_head = find_tile_of_block(q_RHK, k_XGMK)
    buffers = make_block_buffers()
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_for_queries(k_XGMK[x, g], v_XGMU[x, g], begin_X[x], end_X[x], 0, count, scale, buffers)
    write_answers(buffers, tile_head, count, v_XGMU.shape[3], a_RX)


def launch_block_per_range(q_RHK, cache, scale, out=None, workspace=None):
    """a_RX over X caches, with blocks for ranges of positions, and a second kernel that merges them.

    Launches `block_per_range` as (XG, blocks of queries, ranges) blocks and `merge_ranges`, of 128. Reads what
    `launch_block_per_cache` does; partial results take 4(U + 2) bytes a range and query. Version 3 where blocks are
    many or positions few.
    """
    k_XGMK, v_XGMU, M = *cache[:2], cache[0].shape[2]
    a_RX = make_result_array(q_RHK, cache[:2], out)
    partials_XRHX = scratch_for_ranges(q_RHK, k_XGMK, v_XGMU, M, workspace)
    if partials_XRHX is None:
        return launch_block_per_cache(q_RHK, cache, scale, a_RX)
    return launch_split_kv(block_per_range, grid_for(q_RHK, k_XGMK), q_RHK, cache, scale, M, partials_XRHX, a_RX)


@cuda.jit(launch_bounds=BOUNDS)
def block_per_range(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, length, partials_XRHX):
    """Stages a range of a cache and writes what up to 16 queries have found there, not yet divided.

    Grid (XG, blocks of queries, ranges), block 128. Reads s(K + U) bytes a position, and writes 4(U + 2) a query.
    """
    x, g, count, tile_head = find_tile_of_block(q_RHK, k_XGMK)
    buffers = make_block_buffers()
    begin = max(begin_X[x], cuda.blockIdx.z * length)
    end = min(end_X[x], (cuda.blockIdx.z + 1) * length)
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_for_queries(k_XGMK[x, g], v_XGMU[x, g], begin, end, 0, count, scale, buffers)
    write_partials(buffers, tile_head, count, v_XGMU.shape[3], partials_XRHX[cuda.blockIdx.z])


# What each kernel is compiled and type-checked for, without a GPU.
ARGUMENTS = (QUERIES_RHK, CACHES[1], CACHES[1], NUMBERS_X, NUMBERS_X, float32)  # of float16, which asks for more
SIGNATURES = {kernel: [(*ARGUMENTS, RESULT_RX)] for kernel in (block_per_head, block_per_cache)}
SIGNATURES[block_per_range] = [(*ARGUMENTS, int64, PARTIALS_XRHX)]
REGISTERS = dict.fromkeys(SIGNATURES, 96)
