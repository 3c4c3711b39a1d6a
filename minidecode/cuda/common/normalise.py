"""A row normalised by the warp or block that holds it: pieces of the kernels of norm.py and embedding.py."""

from __future__ import annotations

import math

from numba import cuda, float32

from .bias import with_bias
from .reduction import THREADS, WARPS, block_sum, warp_sum
from .vector_load import wide_load, wide_store


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


def make_row_normaliser(threads, quads):
    """A device function that normalises a row of at most 4 * threads * quads numbers, which its threads keep.

    A number behind the row's end is 0.
    """
    sum_of, columns = make_row_sum(threads), 4 * quads
    ahead = quads if quads <= 2 else 0  # whose gains have registers before the sums

    @cuda.jit(device=True)
    def normalise_kept(kept, r, t, gain_D, shift_D, eps, h_RD):
        gains, shifts = cuda.local.array(columns, float32), cuda.local.array(columns, float32)
        part, other = cuda.shared.array(WARPS, float32), cuda.shared.array(WARPS, float32)
        D = h_RD.shape[1]
        for i in range(ahead):
            load_gains(gains, shifts, 4 * i, gain_D, shift_D, 4 * (t + threads * i))
        mean, total, squares = float32(0), float32(0), float32(0)
        if shift_D.shape[0] > 0:  # so it is for all threads: all of them meet at the barrier, or none
            for k in range(columns):
                total += kept[k]
            mean = sum_of(total, part) / float32(D)
        for i in range(quads):
            if 4 * (t + threads * i) < D:
                for k in range(4 * i, 4 * i + 4):
                    squares += (kept[k] - mean) * (kept[k] - mean)
        scale = float32(1) / math.sqrt(sum_of(squares, other) / float32(D) + eps)
        for i in range(quads):
            c, k = 4 * (t + threads * i), 4 * i
            if i >= ahead:
                load_gains(gains, shifts, k, gain_D, shift_D, c)
            w, x = (kept[k] - mean) * scale, (kept[k + 1] - mean) * scale
            y, z = (kept[k + 2] - mean) * scale, (kept[k + 3] - mean) * scale
            w, x = w * gains[k] + shifts[k], x * gains[k + 1] + shifts[k + 1]
            y, z = y * gains[k + 2] + shifts[k + 2], z * gains[k + 3] + shifts[k + 3]
            if c < D:
                wide_store(h_RD[r], c, w, x, y, z)

    return normalise_kept


@cuda.jit(device=True)
def load_gains(gains, shifts, k, gain_D, shift_D, c):
    """Four gains from column c on, and as many shifts, 0 where there are none, into places k to k + 3."""
    c = min(c, gain_D.shape[0] - 4)  # behind the row's end they count for nothing
    gains[k], gains[k + 1], gains[k + 2], gains[k + 3] = wide_load(gain_D, c)
    shifts[k] = shifts[k + 1] = shifts[k + 2] = shifts[k + 3] = float32(0)
    if shift_D.shape[0] > 0:
        shifts[k], shifts[k + 1], shifts[k + 2], shifts[k + 3] = wide_load(shift_D, c)


@cuda.jit(device=True)
def add_four_to_kept(kept, k, x_D, c, begins):
    """The numbers of x from column c on are added to places k to k + 3, or begin there; behind the row's end 0."""
    w, x, y, z = wide_load(x_D, min(c, x_D.shape[0] - 4))  # no branch: all loads are under way at once
    if c >= x_D.shape[0]:
        w = x = y = z = float32(0)
    if begins:
        kept[k], kept[k + 1], kept[k + 2], kept[k + 3] = w, x, y, z
    else:
        kept[k], kept[k + 1], kept[k + 2], kept[k + 3] = kept[k] + w, kept[k + 1] + x, kept[k + 2] + y, kept[k + 3] + z
