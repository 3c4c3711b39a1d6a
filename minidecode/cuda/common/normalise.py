"""A row normalised by the warp or block that holds it: pieces of the kernels of norm.py and embedding.py."""

from __future__ import annotations

import math

from numba import cuda, float32

from .bias import with_bias
from .reduction import THREADS, WARPS, block_sum, warp_sum
from .vector_load import wide_load, wide_store

GAINS_AT_ONCE = 4  # fours of gains and of shifts that have registers


@cuda.jit(device=True)
def normalise_row(row, running_sum, part, gain_D, shift_D, eps, h_RD):
    """h of a block's row; `running_sum` is the sum of every THREADS-th of its numbers, this thread's own share."""
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, h_RD.shape[1]
    mean = float32(0)
    if shift_D.shape[0] > 0:  # so it is for all threads: all of them meet at the barriers, or none
        mean = block_sum(running_sum, part) / float32(D)
    squares = float32(0)
    for d in range(t, D, THREADS):
        squares += (row[d] - mean) * (row[d] - mean)
    spread = math.sqrt(block_sum(squares, part) / float32(D) + eps)
    for d in range(t, D, THREADS):
        h_RD[r, d] = with_bias((row[d] - mean) / spread * gain_D[d], shift_D, d)


def make_row_sum(threads):
    """A device function: (mine, part) -> the sum over the warp, or the block, that has a row.

    Each sum of a block has a `part` of its own, so that no thread waits for the others to have read it.
    """

    @cuda.jit(device=True)
    def sum_of_warp(mine, part):
        return warp_sum(mine)

    @cuda.jit(device=True)
    def sum_of_block(mine, part):
        mine, t = warp_sum(mine), cuda.threadIdx.x
        if t % 32 == 0:
            part[t // 32] = mine
        cuda.syncthreads()
        total = float32(0)
        for warp in range(WARPS):
            total += part[warp]
        return total

    return sum_of_warp if threads == 32 else sum_of_block


@cuda.jit(device=True)
def keep_four(loaded, k, x_D, c):
    """Loads four numbers of x, from column c on, to places k to k + 3; behind the row's end it loads nothing.

    Its only condition is one that the machine code attaches to the load, and places lie at constant distances. So
    a row's loads take an instruction each, and all are under way at once.
    """
    if c < x_D.shape[0]:
        loaded[k], loaded[k + 1], loaded[k + 2], loaded[k + 3] = wide_load(x_D, c)


@cuda.jit(device=True)
def add_four(kept, loaded, k):
    """Places k to k + 3 of `kept` become the sums with those of `loaded`."""
    for j in range(k, k + 4):
        kept[j] += loaded[j]


def make_row_normaliser(threads, quads):
    """A device function that normalises a row of at most 4 * threads * quads numbers, which its threads keep.

    What a thread keeps from behind the row's end counts for nothing. Gains are loaded before the sums where a thread
    has few of them, otherwise behind, GAINS_AT_ONCE fours at a time: no compiler moves a load before a store.
    """
    sum_of, ahead = make_row_sum(threads), quads <= 2
    at_once = min(quads, GAINS_AT_ONCE)
    places = 4 * at_once

    @cuda.jit(device=True)
    def load_gains(gains, shifts, gain_D, shift_D, first):
        for i in range(at_once):
            keep_four(gains, 4 * i, gain_D, first + 4 * threads * i)
        for i in range(at_once):
            keep_four(shifts, 4 * i, shift_D, first + 4 * threads * i)

    @cuda.jit(device=True)
    def normalise_kept(kept, r, t, gain_D, shift_D, eps, h_RD):
        gains, shifts = cuda.local.array(places, float32), cuda.local.array(places, float32)
        part, other = cuda.shared.array(WARPS, float32), cuda.shared.array(WARPS, float32)
        D = h_RD.shape[1]
        if ahead:
            load_gains(gains, shifts, gain_D, shift_D, 4 * t)
        mean, total, squares = float32(0), float32(0), float32(0)
        if shift_D.shape[0] > 0:  # so it is for all threads: all of them meet at the barrier, or none
            for i in range(quads):
                if 4 * (t + threads * i) < D:
                    for k in range(4 * i, 4 * i + 4):
                        total += kept[k]
            mean = sum_of(total, part) / float32(D)
        for i in range(quads):
            if 4 * (t + threads * i) < D:
                for k in range(4 * i, 4 * i + 4):
                    squares += (kept[k] - mean) * (kept[k] - mean)
        scale = float32(1) / math.sqrt(sum_of(squares, other) / float32(D) + eps)
        for first in range(0, quads, at_once):
            if not ahead:
                load_gains(gains, shifts, gain_D, shift_D, 4 * (t + threads * first))
            for i in range(at_once):
                c, g, k = 4 * (t + threads * (first + i)), 4 * i, 4 * (first + i)
                if c < D:
                    w, x = (kept[k] - mean) * scale * gains[g], (kept[k + 1] - mean) * scale * gains[g + 1]
                    y, z = (kept[k + 2] - mean) * scale * gains[g + 2], (kept[k + 3] - mean) * scale * gains[g + 3]
                    if shift_D.shape[0] > 0:
                        w, x, y, z = w + shifts[g], x + shifts[g + 1], y + shifts[g + 2], z + shifts[g + 3]
                    wide_store(h_RD[r], c, w, x, y, z)

    return normalise_kept
