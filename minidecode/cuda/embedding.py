"""Token and position embedding with layer normalisation in one kernel (LightSeq, section 2.1).

1. Two kernels, as without fusion: a thread per number gathers and adds; a block per row normalises what it finds
   written, which it reads three times.
2. One kernel, a block per row: x stays in shared memory between gather and norm, so nothing that was written is read.
   Sums run by shuffles inside each warp and once over the warps: two barriers each.
3. A warp per row: each lane keeps its numbers of the row in registers, and shuffles alone make the sums. No shared
   memory, no barrier; and a block takes several rows, so that none of its warps waits for another.
4. The same by 128-bit loads and stores; rows of more than 1,024 numbers have a block each (version 4 of norm.py).

Floor for a decode step: a launch in a graph, 1.1 us. Predicted 2.3 us: the row's loads wait for its token, and then
come two sums. On 1 GB the goal is 85 % of a copy's bandwidth, and `minidecode predict embedding` gives 82 %: memory
alone allows 100 %, L2 183 %, L1 310 %, waits 397 %, instructions 676 %. Not measured by itself.

An empty `wpe` says that no position is added, an empty `shift` that the norm is an RMS norm (cuda/norm.py).
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..errors import OptionError
from ..reference import empty, or_empty
from .common.bias import with_bias
from .common.normalise import add_four, keep_four, make_row_normaliser, normalise_row
from .common.reduction import THREADS, WARPS, warp_sum
from .common.vector_load import has_aligned_rows, wide_store

ROOM = 4096  # widest row of version 2: 16 KiB of shared memory
KEPT = 32  # numbers of a row that a lane of version 3 has registers for
WIDEST = 32 * KEPT  # row of version 3


def embed_norm_v1(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None, *, threads=128):
    """x_RD = scale * wte + wpe, then its norm h_RD, by two kernels.

    Launches `embed_per_number` in ceil(RD / threads) blocks and `norm_per_row` in R of 128. Reads 8RD bytes of tables,
    x three times and 8RD of gain and shift: 28RD; writes 8RD.
    """
    x_RD, h_RD = result_arrays(ids_R, wte_VD, out)
    tables, (gain_D, shift_D, eps) = table_arguments(wte_VD, wpe_ND, scale), norm_arguments(norm)
    launch(embed_per_number, -(-x_RD.size // threads), threads, ids_R, pos_R, *tables, x_RD)
    launch(norm_per_row, len(ids_R), THREADS, x_RD, gain_D, shift_D, eps, h_RD)
    return x_RD, h_RD


@cuda.jit
def embed_per_number(ids_R, pos_R, wte_VD, wpe_ND, scale, x_RD):
    """Gathers and adds one number of x_RD; the thread divides to find its row.

    Any grid of RD threads. A thread reads 16 bytes of ids and 8 of tables, and writes 4.
    """
    i = cuda.grid(1)
    if i < x_RD.size:
        r = i // x_RD.shape[1]
        d = i - r * x_RD.shape[1]
        x_RD[r, d] = add_position(scale * wte_VD[ids_R[r], d], wpe_ND, pos_R[r], d)


@cuda.jit(device=True)
def add_position(x, wpe_ND, position, d):
    """x with the number of its position added; or x, where there is no table of positions."""
    return x + wpe_ND[position, d] if wpe_ND.shape[0] > 0 else x


@cuda.jit
def norm_per_row(x_RD, gain_D, shift_D, eps, h_RD):
    """Normalises a row of x_RD, which it reads three times.

    Grid R, block 128. Reads 20D bytes a row and writes 4D.
    """
    part = cuda.shared.array(WARPS, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    total = float32(0)
    for d in range(t, D, THREADS):
        total += x_RD[r, d]
    normalise_row(x_RD[r], total, part, gain_D, shift_D, eps, h_RD)


def embed_norm_v2(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """x_RD = scale * wte + wpe and its norm h_RD, a block per row that keeps it in shared memory.

    Launches `embedding_per_block` in R blocks of 128. Reads 16RD bytes and writes 8RD. Rows that do not fit take
    version 1.
    """
    if wte_VD.shape[1] > ROOM:
        return embed_norm_v1(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, h_RD = result_arrays(ids_R, wte_VD, out)
    given = *table_arguments(wte_VD, wpe_ND, scale), *norm_arguments(norm)
    launch(embedding_per_block, len(ids_R), THREADS, ids_R, pos_R, *given, x_RD, h_RD)
    return x_RD, h_RD


@cuda.jit
def embedding_per_block(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
    """Gathers, adds and normalises a row that stays in 16 KiB of shared memory.

    Grid R, block 128. Reads 16D bytes a row and writes 8D.
    """
    row = cuda.shared.array(ROOM, float32)
    part = cuda.shared.array(WARPS, float32)
    r, t, D = cuda.blockIdx.x, cuda.threadIdx.x, x_RD.shape[1]
    token, position = ids_R[r], pos_R[r]
    total = float32(0)
    for d in range(t, D, THREADS):
        row[d] = add_position(
            scale * wte_VD[token, d], wpe_ND, position, d
        )  # each thread reads back what it wrote itself
        x_RD[r, d] = row[d]
        total += row[d]
    normalise_row(row, total, part, gain_D, shift_D, eps, h_RD)


def embed_norm_v3(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """x_RD = scale * wte + wpe and its norm h_RD, a warp per row that keeps it in registers.

    Launches `embedding_per_warp` in ceil(R / 4) blocks of 128. Reads 16RD bytes and writes 8RD. Rows wider than 1,024
    numbers take version 2.
    """
    if wte_VD.shape[1] > WIDEST:
        return embed_norm_v2(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, h_RD = result_arrays(ids_R, wte_VD, out)
    given = *table_arguments(wte_VD, wpe_ND, scale), *norm_arguments(norm)
    launch(embedding_per_warp, -(-len(ids_R) // WARPS), THREADS, ids_R, pos_R, *given, x_RD, h_RD)
    return x_RD, h_RD


@cuda.jit
def embedding_per_warp(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
    """Gathers, adds and normalises a row of which each lane keeps 32 numbers.

    Grid ceil(R / 4), block 128. Reads 16D bytes a row and writes 8D.
    """
    kept = cuda.local.array(KEPT, float32)
    r, lane, D = cuda.blockIdx.x * WARPS + cuda.threadIdx.x // 32, cuda.threadIdx.x % 32, x_RD.shape[1]
    if r >= x_RD.shape[0]:  # a whole warp leaves
        return
    token, position = ids_R[r], pos_R[r]
    total = float32(0)
    for k in range(KEPT):  # as often for all rows: only so do the compiler's registers have fixed names
        d = lane + 32 * k
        if d < D:
            kept[k] = add_position(scale * wte_VD[token, d], wpe_ND, position, d)
            x_RD[r, d] = kept[k]
            total += kept[k]
    mean = warp_sum(total) / float32(D) if shift_D.shape[0] > 0 else float32(0)
    squares = float32(0)
    for k in range(KEPT):
        if lane + 32 * k < D:
            squares += (kept[k] - mean) * (kept[k] - mean)
    spread = math.sqrt(warp_sum(squares) / float32(D) + eps)
    for k in range(KEPT):
        d = lane + 32 * k
        if d < D:
            h_RD[r, d] = with_bias((kept[k] - mean) / spread * gain_D[d], shift_D, d)


def make_embedding_kernel(threads, quads):
    """A kernel of version 4: this many threads, a warp or a block, have a row."""
    normalise, columns, rows = make_row_normaliser(threads, quads), 4 * quads, THREADS // threads

    @cuda.jit
    def embedding_kept(ids_R, pos_R, wte_VD, wpe_ND, scale, gain_D, shift_D, eps, x_RD, h_RD):
        """Gathers, adds and normalises a row that a warp or a block keeps in registers.

        Grid ceil(R / 4) or R, block 128. Reads 16D bytes a row and writes 8D.
        """
        kept, loaded = cuda.local.array(columns, float32), cuda.local.array(columns, float32)
        r, t, D = cuda.blockIdx.x * rows + cuda.threadIdx.x // threads, cuda.threadIdx.x % threads, x_RD.shape[1]
        if r >= x_RD.shape[0]:  # a whole warp, or block, leaves
            return
        token, position = ids_R[r], pos_R[r]
        for i in range(quads):
            keep_four(kept, 4 * i, wte_VD[token], 4 * (t + threads * i))
        if wpe_ND.shape[0] > 0:
            for i in range(quads):
                keep_four(loaded, 4 * i, wpe_ND[position], 4 * (t + threads * i))
        for i in range(quads):
            c, k = 4 * (t + threads * i), 4 * i
            if c < D:
                for j in range(k, k + 4):
                    kept[j] *= scale
                if wpe_ND.shape[0] > 0:
                    add_four(kept, loaded, k)
                wide_store(x_RD[r], c, kept[k], kept[k + 1], kept[k + 2], kept[k + 3])
        normalise(kept, r, t, gain_D, shift_D, eps, h_RD)

    return embedding_kept


embedding_of_warp, embedding_of_block = (make_embedding_kernel(threads, 8) for threads in (32, THREADS))


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """x_RD = scale * wte + wpe and its norm h_RD, by 128-bit loads; a warp or a block has a row in registers.

    Version 4: ceil(R / 4) blocks of 128 for rows of up to 1,024 numbers, R for wider ones. Reads 16RD bytes and writes
    8RD. Version 3 where rows are wider than 4,096 numbers, no whole fours, or begin elsewhere.
    """
    x_RD, h_RD = result_arrays(ids_R, wte_VD, out)
    R, D = x_RD.shape
    loaded = [x_RD, h_RD, wte_VD, *(a for a in (wpe_ND,) if a is not None)]
    loaded += [a[None] for a in (norm.gain_D, norm.bias_D) if a is not None]
    if D > 4 * THREADS * 8 or D % 4 or not all(has_aligned_rows(a) for a in loaded):
        return embed_norm_v3(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, (x_RD, h_RD))
    kernel, blocks = (embedding_of_warp, -(-R // WARPS)) if D <= 1024 else (embedding_of_block, R)
    given = *table_arguments(wte_VD, wpe_ND, scale), *norm_arguments(norm)
    launch(kernel, blocks, THREADS, ids_R, pos_R, *given, x_RD, h_RD)
    return x_RD, h_RD


def table_arguments(wte_VD, wpe_ND, scale):
    """The arguments of a kernel that say what a row's x is."""
    return wte_VD, or_empty(wpe_ND, wte_VD), np.float32(scale)


def norm_arguments(norm):
    """The arguments of a kernel that say how a row is normalised."""
    return norm.gain_D, or_empty(norm.bias_D, norm.gain_D), np.float32(norm.eps)


def result_arrays(ids_R, wte_VD, out):
    """The arrays for x and h: `out`, or new ones on the table's device."""
    if wte_VD.dtype != np.float32:
        raise OptionError(
            f"the kernels of cuda/embedding.py compute in float32, not {wte_VD.dtype}: embedding=cpu does both"
        )
    shape = len(ids_R), wte_VD.shape[1]
    return out or (empty(wte_VD, shape), empty(wte_VD, shape))


# What each kernel is compiled and type-checked for, without a GPU.
_ROWS, _ROW, _WHOLE = float32[:, ::1], float32[::1], int64[::1]
_TABLES = (_WHOLE, _WHOLE, _ROWS, _ROWS, float32)
_FUSED = (*_TABLES, _ROW, _ROW, float32, _ROWS, _ROWS)
SIGNATURES = {
    embed_per_number: [(*_TABLES, _ROWS)],
    norm_per_row: [(_ROWS, _ROW, _ROW, float32, _ROWS)],
    embedding_per_block: [_FUSED],
    embedding_per_warp: [_FUSED],
    embedding_of_warp: [_FUSED],
    embedding_of_block: [_FUSED],
}
REGISTERS = dict.fromkeys(
    (embedding_per_warp, embedding_of_warp, embedding_of_block), 128
)  # 32 of them are the row, and as many loads are under way at once
