"""Sums and maxima over the threads of a warp, and of a block: pieces of the kernels beside this file."""

from __future__ import annotations

from numba import cuda, float32

THREADS = 128  # of a block: one constant, for the shapes of shared arrays
WARP = 32  # lanes
WARPS = THREADS // 32
LANES = 0xFFFFFFFF  # all of a warp


@cuda.jit(device=True)
def warp_sum(mine):
    """The sum of `mine` over the warp, for every lane."""
    for step in (16, 8, 4, 2, 1):
        mine += cuda.shfl_xor_sync(LANES, mine, step)
    return mine


@cuda.jit(device=True)
def warp_max(mine):
    """The largest number of a warp, in every lane."""
    for step in (16, 8, 4, 2, 1):
        other = cuda.shfl_xor_sync(LANES, mine, step)
        if other > mine:
            mine = other
    return mine


@cuda.jit(device=True)
def block_sum(mine, part):
    """The sum of `mine` over a block of THREADS, for every thread; `part`, shared, has a place for each warp."""
    mine, t = warp_sum(mine), cuda.threadIdx.x
    if t % 32 == 0:
        part[t // 32] = mine
    cuda.syncthreads()
    total = float32(0)
    for warp in range(WARPS):
        total += part[warp]
    cuda.syncthreads()  # everybody has read them before anybody writes again
    return total


@cuda.jit(device=True)
def block_max(mine, part):
    """The largest over a block of THREADS, for every thread; `part`, shared, has a place for each warp."""
    mine, t = warp_max(mine), cuda.threadIdx.x
    if t % 32 == 0:
        part[t // 32] = mine
    cuda.syncthreads()
    for warp in range(WARPS):
        if part[warp] > mine:
            mine = part[warp]
    cuda.syncthreads()  # everybody has read them before anybody writes again
    return mine
