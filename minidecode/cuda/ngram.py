"""The no-repeat-n-gram ban (FastSeq, section 4.2, Algorithm 1).

1. A thread per row: the loops of the CPU, one row each.
2. A block per row and a thread per start: all windows of a row at once, as in the paper. The published kernel launches
   one thread for each start in one block and so fails beyond 1,024; here threads go on to the start blockDim.x further.
3. The row's tokens are staged in shared memory, tile by tile with the n-1 tokens after it, so that the n loads per
   start of version 2 become one from global memory.

Floor for 32 sentences of 4 beams and 140 tokens: a launch in a graph, 1.1 us; their tokens are 0.14 MB. Predicted
2.3 us: tokens wait for the length, and two barriers follow. Measured (H100, 2026-11-26): 27.9, 2.3 and 3.1 us for
versions 1, 2 and 3. Version 3 loses: at this length most loads of version 2 come from the L1 cache, and version 3 waits
at two barriers (reasoned). FairSeq's loop with transfers took 113 ms.

All versions write -inf where several threads may write the same: a race of equal values, which changes nothing.
"""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, int64

from ..device.launch import launch
from ..reference import scores_to_change

BANNED = float32(-np.inf)
TILE = 256  # starts that a block of version 3 looks at together
MOST_N = 32  # tokens of the longest n-gram that version 3 has room for
ROOM = TILE + MOST_N  # one constant: Numba takes no sum for the shape of a shared array


def ban_ngrams_v1(scores_RV, tokens_RM, length_R, n, out=None, *, threads=128):
    """Rules out the tokens that would repeat an n-gram of a row's tokens, a thread per row.

    Launches `thread_per_row` in ceil(R / threads) blocks. Reads 16 to 16(n - 1) bytes for each start, and writes 4 for
    each n-gram that ends in the row's last n - 1 tokens.
    """
    scores_RV = scores_to_change(scores_RV, out)
    launch(thread_per_row, -(-len(length_R) // threads), threads, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def thread_per_row(scores_RV, tokens_RM, length_R, n):
    """Compares each start of a row with its last n - 1 tokens, and bans what follows an equal one.

    Any grid of R threads. A thread reads 16 to 16(n - 1) bytes a start, and writes 4 for each equal one.
    """
    r = cuda.grid(1)
    if r >= length_R.size:
        return
    tail = length_R[r] - n + 1
    for start in range(tail):
        same = 0
        while same < n - 1 and tokens_RM[r, start + same] == tokens_RM[r, tail + same]:
            same += 1
        if same == n - 1:
            scores_RV[r, tokens_RM[r, start + n - 1]] = BANNED


def ban_ngrams_v2(scores_RV, tokens_RM, length_R, n, out=None, *, threads=128):
    """Rules out the tokens that would repeat an n-gram of a row's tokens, a block per row.

    Launches `block_per_row` in R blocks. Reads and writes what version 1 does, side by side.
    """
    scores_RV = scores_to_change(scores_RV, out)
    launch(block_per_row, len(length_R), threads, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def block_per_row(scores_RV, tokens_RM, length_R, n):
    """Compares every blockDim.x-th start of a row with its last n - 1 tokens, and bans what follows an equal one.

    Grid R, any block. Reads 16 to 16(n - 1) bytes a start, and writes 4 for each equal one.
    """
    r = cuda.blockIdx.x
    tail = length_R[r] - n + 1
    for start in range(cuda.threadIdx.x, tail, cuda.blockDim.x):
        same = 0
        while same < n - 1 and tokens_RM[r, start + same] == tokens_RM[r, tail + same]:
            same += 1
        if same == n - 1:
            scores_RV[r, tokens_RM[r, start + n - 1]] = BANNED


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None, *, threads=128):
    """Rules out the tokens that would repeat an n-gram of a row's tokens, which are staged in shared memory.

    Version 3: `block_per_row_staged` in R blocks. Reads 8 bytes a token, and n - 1 tokens again for each 256 starts;
    writes 4 for each n-gram that ends in the last n - 1 tokens. N-grams longer than 32 take version 2.
    """
    if n > MOST_N:
        return ban_ngrams_v2(scores_RV, tokens_RM, length_R, n, out, threads=threads)
    scores_RV = scores_to_change(scores_RV, out)
    launch(block_per_row_staged, len(length_R), threads, scores_RV, tokens_RM, length_R, n)
    return scores_RV


@cuda.jit
def block_per_row_staged(scores_RV, tokens_RM, length_R, n):
    """Stages 256 starts with the n - 1 tokens behind them, then compares there.

    Grid R, any block; 2.5 KiB of shared memory. Reads 8 bytes a token and n - 1 tokens again a tile, and writes 4 a
    ban.
    """
    tile = cuda.shared.array(ROOM, int64)
    last = cuda.shared.array(MOST_N, int64)
    r = cuda.blockIdx.x
    tail = length_R[r] - n + 1
    for k in range(cuda.threadIdx.x, n - 1, cuda.blockDim.x):
        if tail >= 0:
            last[k] = tokens_RM[r, tail + k]
    for first in range(0, tail, TILE):
        starts = min(TILE, tail - first)
        for k in range(cuda.threadIdx.x, starts + n - 1, cuda.blockDim.x):
            tile[k] = tokens_RM[r, first + k]
        cuda.syncthreads()  # the tile and the last tokens are there
        for start in range(cuda.threadIdx.x, starts, cuda.blockDim.x):
            same = 0
            while same < n - 1 and tile[start + same] == last[same]:
                same += 1
            if same == n - 1:
                scores_RV[r, tile[start + n - 1]] = BANNED
        cuda.syncthreads()  # no thread needs this tile any more


# What each kernel is compiled and type-checked for, without a GPU.
ARGUMENTS = (float32[:, ::1], int64[:, ::1], int64[::1], int64)
SIGNATURES = {kernel: [ARGUMENTS] for kernel in (thread_per_row, block_per_row, block_per_row_staged)}
