"""Sums over the threads of a warp: pieces of the kernels beside this file."""

from __future__ import annotations

from numba import cuda

THREADS = 128  # of a block: one constant, for the shapes of shared arrays
WARPS = THREADS // 32
LANES = 0xFFFFFFFF  # all of a warp


@cuda.jit(device=True)
def warp_sum(mine):
    """The sum of `mine` over the warp, for every lane."""
    for step in (16, 8, 4, 2, 1):
        mine += cuda.shfl_xor_sync(LANES, mine, step)
    return mine


SIGNATURES = {}  # no kernels of its own
