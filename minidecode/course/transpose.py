"""Three kernels that turn a matrix round: what chapter 5 compares.

1. A thread per number, straight from one matrix to the other.
2. Through a tile in shared memory, so that neighbouring threads both read and write neighbouring numbers.
3. The same with a tile that is one column wider than it need be, so that its columns lie in different banks.

A block is (32, 32), blocks cover the matrix: grid = (columns / 32, rows / 32), rounded up.
"""

from __future__ import annotations

from numba import cuda, float32

TILE = 32
PADDED = TILE + 1


@cuda.jit
def draw_turn(a_RC, b_CR):
    c, r = cuda.grid(2)
    if r < a_RC.shape[0] and c < a_RC.shape[1]:
        b_CR[c, r] = a_RC[r, c]


@cuda.jit
def turn_by_tiles(a_RC, b_CR):
    tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    c, r = cuda.grid(2)
    if r < a_RC.shape[0] and c < a_RC.shape[1]:
        tile[y, x] = a_RC[r, c]
    cuda.syncthreads()
    c, r = cuda.blockIdx.x * TILE + y, cuda.blockIdx.y * TILE + x
    if r < a_RC.shape[0] and c < a_RC.shape[1]:
        b_CR[c, r] = tile[x, y]


@cuda.jit
def turn_by_padded_tiles(a_RC, b_CR):
    tile = cuda.shared.array((TILE, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    c, r = cuda.grid(2)
    if r < a_RC.shape[0] and c < a_RC.shape[1]:
        tile[y, x] = a_RC[r, c]
    cuda.syncthreads()
    c, r = cuda.blockIdx.x * TILE + y, cuda.blockIdx.y * TILE + x
    if r < a_RC.shape[0] and c < a_RC.shape[1]:
        b_CR[c, r] = tile[x, y]
