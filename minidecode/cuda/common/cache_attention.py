"""Attention of R rows over X caches, each of which serves R/X rows: kernels of grouped.py (X = R) and shared.py."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ...runtime.launch import launch
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
    write_answers,
    write_partials,
)


def warp_for_head(q_RHK, cache, scale, out=None):
    """Version 2 of both: `block_per_head`. cache: (k_XGMK, v_XGMU, begin_X, end_X)."""
    a_RX = result(q_RHK, cache[:2], out)
    launch(block_per_head, q_RHK.shape[0] * q_RHK.shape[1], 32, q_RHK, *cache, np.float32(scale), a_RX)
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


def block_for_cache(q_RHK, cache, scale, out=None):
    """Version 3 of both: `block_per_cache`; heads that do not fit take version 2."""
    if is_wide(*cache[:2]):
        return warp_for_head(q_RHK, cache, scale, out)
    a_RX = result(q_RHK, cache[:2], out)
    launch(block_per_cache, grid_for(q_RHK, cache[0]), THREADS, q_RHK, *cache, np.float32(scale), a_RX)
    return a_RX


@cuda.jit(launch_bounds=BOUNDS)
def block_per_cache(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, a_RX):
    x, g, count, tile_head = my_tile(q_RHK, k_XGMK)
    buffers = block_buffers()
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_all(k_XGMK[x, g], v_XGMU[x, g], begin_X[x], end_X[x], 0, count, scale, buffers)
    write_answers(buffers, tile_head, count, v_XGMU.shape[3], a_RX)


def block_for_range(q_RHK, cache, scale, out=None, workspace=None):
    """Version 4 of both: `block_per_range` where there are few blocks and many positions, otherwise version 3."""
    k_XGMK, v_XGMU, M = *cache[:2], cache[0].shape[2]
    a_RX = result(q_RHK, cache[:2], out)
    partials_XRHX = scratch_for_ranges(q_RHK, k_XGMK, v_XGMU, M, workspace)
    if partials_XRHX is None:
        return block_for_cache(q_RHK, cache, scale, a_RX)
    return split_kv(block_per_range, grid_for(q_RHK, k_XGMK), q_RHK, cache, scale, M, partials_XRHX, a_RX)


@cuda.jit(launch_bounds=BOUNDS)
def block_per_range(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, length, partials_XRHX):
    x, g, count, tile_head = my_tile(q_RHK, k_XGMK)
    buffers = block_buffers()
    begin = max(begin_X[x], cuda.blockIdx.z * length)
    end = min(end_X[x], (cuda.blockIdx.z + 1) * length)
    stage_queries(q_RHK, tile_head, count, v_XGMU.shape[3], buffers)
    accumulate_all(k_XGMK[x, g], v_XGMU[x, g], begin, end, 0, count, scale, buffers)
    write_partials(buffers, tile_head, count, v_XGMU.shape[3], partials_XRHX[cuda.blockIdx.z])


# What each kernel is compiled and type-checked for, without a GPU.
ARGUMENTS = (QUERIES_RHK, CACHES[1], CACHES[1], NUMBERS_X, NUMBERS_X, float32)  # of float16, which asks for more
SIGNATURES = {kernel: [(*ARGUMENTS, RESULT_RX)] for kernel in (block_per_head, block_per_cache)}
SIGNATURES[block_per_range] = [(*ARGUMENTS, int64, PARTIALS_XRHX)]
REGISTERS = dict.fromkeys(SIGNATURES, 96)
