"""Residual, bias and layer normalisation in one kernel (LightSeq, section 2.1).

1. A thread per row: the loops of the CPU. Neighbouring threads read addresses a row apart. One thread sums a whole
   row, so it sums what lies above the row's first number: of equal numbers nothing, and nothing that rounds. Squares,
   which all have one sign, it sums by pieces.
2. A block per row: neighbouring threads read neighbouring numbers; sums run over a tree in shared memory, with a
   barrier at each of its levels.
3. The row is staged in shared memory, so that nothing is read from global memory twice; sums run by shuffles inside
   each warp and once over the warps: two barriers a sum, however wide the block.

4. The row is staged in registers, by 128-bit loads. Few rows have a block each, whose sums take one barrier each; from
   1,024 rows on, and up to 1,024 columns, a row has a warp, and no barrier. All loads of a row are under way at once:
   nothing uses what one brings before the last is asked for, and only a condition of its own guards a load. The gains
   of short rows are loaded before the sums, so that no thread waits for them behind. Floor of a decode step's norm,
   4 rows of 768: a launch in a graph, 1.1 us. Predicted: 1.8 us. On 1 GB the goal is 85 % of a copy's bandwidth, and
   `minidecode predict norm` gives 81 %: memory alone allows 100 %, L2 183 %, L1 275 %, waits 479 %, instructions 634 %.
   Memory and L2, through which all bytes pass, allow 88 % together. Where each four was used before the next one was
   asked for, the row waited 15 times, and the prediction was 60 %. Not measured by itself; version 3 reached 39 %
   (H100, 2026-11-26).

The mean comes off before squaring: E[x^2] - mean^2 loses everything on rows far from zero. An empty `shift` says that
the norm has no bias: it is an RMS norm, whose mean is 0, and no thread sums for one.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, cuda, float32

from ..device.launch import launch
from ..errors import OptionError
from ..reference import empty, or_empty
from .common.bias import with_bias
from .common.normalise import add_four, keep_four, make_row_normaliser, normalise_row
from .common.reduction import THREADS, WARPS
from .common.vector_load import has_aligned_rows, wide_store

MANY = 1024  # rows: with a warp each they fill a GPU
PIECE = 64  # squares that a thread of version 1 sums before it adds their sum to the row's
ROOM = 4096  # widest row of version 3: 16 KiB of shared memory


@cuda.jit(device=True)
def add_residual(x_RD, y_RD, bias_D, adds, r, d, summed_RD):
    """x + y + bias, kept in `summed`; or x, which is `summed` too, where there is nothing to add."""
    x = x_RD[r, d]
    if adds:
        x = with_bias(x + y_RD[r, d], bias_D, d)
        summed_RD[r, d] = x
    return x


def residual_norm_v1(x_RD, y_RD, bias_D, norm, out=None, *, threads=128):
    """summed_RD = x + y + bias and its norm h_RD, a thread per row.

    Launches `norm_thread_per_row` in ceil(R / threads) blocks. Reads 28RD bytes, the sum twice, and writes 8RD.
    """
    return _launch(norm_thread_per_row, -(-len(x_RD) // threads), threads, x_RD, y_RD, bias_D, norm, out)


@cuda.jit
def norm_thread_per_row(x_RD, y_RD, bias_D, adds, gain_D, shift_D, eps, summed_RD, h_RD):
    """Adds and normalises one row, number by number, in three passes.

    Any grid of R threads. A thread reads 28D bytes and writes 8D.
    """
    r = cuda.grid(1)
    if r >= x_RD.shape[0]:
        return
    D = x_RD.shape[1]
    first, total = float32(0), float32(0)
    for d in range(D):
        x = add_residual(x_RD, y_RD, bias_D, adds, r, d, summed_RD)
        if d == 0:
            first = x
        total += x - first
    mean = first + total / float32(D) if shift_D.shape[0] > 0 else float32(0)
    squares, piece = float32(0), float32(0)
    for d in range(D):
        piece += (summed_RD[r, d] - mean) * (summed_RD[r, d] - mean)
        if d % PIECE == PIECE - 1:
            squares += piece
            piece = float32(0)
    spread = math.sqrt((squares + piece) / float32(D) + eps)
    for d in range(D):
        h_RD[r, d] = with_bias((summed_RD[r, d] - mean) / spread * gain_D[d], shift_D, d)


def residual_norm_v2(x_RD, y_RD, bias_D, norm, out=None):
    """summed_RD = x + y + bias and its norm h_RD, a block per row with sums over a tree.

    Launches `norm_block_per_row` in R blocks of 128. Reads 28RD bytes, the sum twice, and writes 8RD.
    """
    return _launch(norm_block_per_row, len(x_RD), THREADS, x_RD, y_RD, bias_D, norm, out)


@cuda.jit
def norm_block_per_row(x_RD, y_RD, bias_D, adds, gain_D, shift_D, eps, summed_RD, h_RD):
    """Adds and normalises one row, in three passes; each sum has a barrier at each level of its tree.

    Grid R, block 128. Reads 28D bytes a row and writes 8D.
    """
    part = cuda.shared.array(THREADS, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    total = float32(0)
    for d in range(t, D, THREADS):
        total += add_residual(x_RD, y_RD, bias_D, adds, r, d, summed_RD)
    mean = float32(0)
    if shift_D.shape[0] > 0:  # so it is for all threads: all of them meet at the barriers, or none
        mean = tree_sum(part, total) / float32(D)
    squares = float32(0)
    for d in range(t, D, THREADS):
        squares += (summed_RD[r, d] - mean) * (summed_RD[r, d] - mean)
    spread = math.sqrt(tree_sum(part, squares) / float32(D) + eps)
    for d in range(t, D, THREADS):
        h_RD[r, d] = with_bias((summed_RD[r, d] - mean) / spread * gain_D[d], shift_D, d)


@cuda.jit(device=True)
def tree_sum(part, mine):
    """The sum of `mine` over the block, for every thread; `part` has a place for each."""
    t = cuda.threadIdx.x
    part[t] = mine
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    total = part[0]
    cuda.syncthreads()  # everybody has read it before the next sum writes
    return total


def residual_norm_v3(x_RD, y_RD, bias_D, norm, out=None):
    """summed_RD = x + y + bias and its norm h_RD, a block per row that keeps it in shared memory.

    Launches `norm_staged` in R blocks of 128. Reads 20RD bytes and writes 8RD. Rows that do not fit take version 2.
    """
    kernel = norm_staged if x_RD.shape[1] <= ROOM else norm_block_per_row
    return _launch(kernel, len(x_RD), THREADS, x_RD, y_RD, bias_D, norm, out)


@cuda.jit
def norm_staged(x_RD, y_RD, bias_D, adds, gain_D, shift_D, eps, summed_RD, h_RD):
    """Adds one row into 16 KiB of shared memory, and normalises it there.

    Grid R, block 128. Reads 20D bytes a row and writes 8D.
    """
    row = cuda.shared.array(ROOM, float32)
    part = cuda.shared.array(WARPS, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    total = float32(0)
    for d in range(t, D, THREADS):
        row[d] = add_residual(x_RD, y_RD, bias_D, adds, r, d, summed_RD)  # each thread reads back what it wrote itself
        total += row[d]
    normalise_row(row, total, part, gain_D, shift_D, eps, h_RD)


def make_norm_kernel(threads, quads):
    """A kernel of version 4: this many threads, a warp or a block, have a row."""
    normalise, columns, rows = make_row_normaliser(threads, quads), 4 * quads, THREADS // threads

    @cuda.jit
    def norm_kept(x_RD, y_RD, bias_D, adds, gain_D, shift_D, eps, summed_RD, h_RD):
        """Adds and normalises a row that a warp or a block keeps in registers.

        Grid ceil(R / 4) or R, block 128. Reads 20D bytes a row and writes 8D.
        """
        kept, loaded = cuda.local.array(columns, float32), cuda.local.array(columns, float32)
        r, t, D = cuda.blockIdx.x * rows + cuda.threadIdx.x // threads, cuda.threadIdx.x % threads, x_RD.shape[1]
        if r >= x_RD.shape[0]:  # a whole warp, or block, leaves
            return
        for i in range(quads):
            keep_four(kept, 4 * i, x_RD[r], 4 * (t + threads * i))
        if adds:
            for i in range(quads):
                keep_four(loaded, 4 * i, y_RD[r], 4 * (t + threads * i))
            for i in range(quads):
                if 4 * (t + threads * i) < D:
                    add_four(kept, loaded, 4 * i)
            if bias_D.shape[0] > 0:
                for i in range(quads):
                    keep_four(loaded, 4 * i, bias_D, 4 * (t + threads * i))
                for i in range(quads):
                    if 4 * (t + threads * i) < D:
                        add_four(kept, loaded, 4 * i)
            for i in range(quads):
                if 4 * (t + threads * i) < D:
                    k = 4 * i
                    wide_store(
                        summed_RD[r], 4 * (t + threads * i), kept[k], kept[k + 1], kept[k + 2], kept[k + 3]
                    )  # fmt: skip
        normalise(kept, r, t, gain_D, shift_D, eps, h_RD)

    return norm_kept


norm_of_warp, norm_of_1024, norm_of_4096 = (
    make_norm_kernel(*of) for of in ((32, 8), (THREADS, 2), (THREADS, 8))
)  # fmt: skip


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """summed_RD = x + y + bias and its norm h_RD, by 128-bit loads; a warp or a block has a row in registers.

    Version 4: ceil(R / 4) blocks of 128 for 1,024 rows and more of up to 1,024 numbers, otherwise R. Reads 20RD bytes
    and writes 8RD. Version 3 where rows are wider than 4,096 numbers, no whole fours, or begin elsewhere.
    """
    R, D = x_RD.shape
    loaded = [x_RD, *(a for a in (y_RD, *(out or ())) if a is not None)]
    loaded += [a[None] for a in (bias_D, norm.gain_D, norm.bias_D) if a is not None]
    if D > 4 * THREADS * 8 or D % 4 or not all(has_aligned_rows(a) for a in loaded):
        return residual_norm_v3(x_RD, y_RD, bias_D, norm, out)
    if D <= 1024 and R >= MANY:
        return _launch(norm_of_warp, -(-R // WARPS), THREADS, x_RD, y_RD, bias_D, norm, out)
    return _launch(norm_of_1024 if D <= 1024 else norm_of_4096, R, THREADS, x_RD, y_RD, bias_D, norm, out)


def _launch(kernel, grid, block, x_RD, y_RD, bias_D, norm, out):
    if x_RD.dtype != np.float32:
        raise OptionError(f"the kernels of cuda/norm.py compute in float32, not {x_RD.dtype}: norm=cpu does both")
    summed_RD, h_RD = out or (None, None)
    h_RD = empty(x_RD, x_RD.shape) if h_RD is None else h_RD
    adds = y_RD is not None
    if not adds:  # what stands in the places of y and the bias is not read
        summed_RD, y_RD, bias_D = x_RD, x_RD, None
    summed_RD = empty(x_RD, x_RD.shape) if summed_RD is None else summed_RD
    bias_D = or_empty(bias_D, norm.gain_D)
    constants = norm.gain_D, or_empty(norm.bias_D, norm.gain_D), np.float32(norm.eps)
    launch(kernel, grid, block, x_RD, y_RD, bias_D, adds, *constants, summed_RD, h_RD)
    return summed_RD, h_RD


# What each kernel is compiled and type-checked for, without a GPU.
_ROWS, _ROW = float32[:, ::1], float32[::1]
ARGUMENTS = (_ROWS, _ROWS, _ROW, boolean, _ROW, _ROW, float32, _ROWS, _ROWS)
KERNELS = norm_thread_per_row, norm_block_per_row, norm_staged, norm_of_warp, norm_of_1024, norm_of_4096
SIGNATURES = {kernel: [ARGUMENTS] for kernel in KERNELS}
REGISTERS = {
    norm_thread_per_row: 56,  # addresses of five arrays at a thread's own row
    norm_of_warp: 96,  # 32 of them are the row, and as many loads are under way at once
    norm_of_1024: 56,
    norm_of_4096: 96,
    norm_staged: 56,  # its 16 KiB of shared memory leave room for few blocks, so that threads may have more
}
