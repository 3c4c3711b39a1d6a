"""`cuda.cg.this_grid().sync()`: the barrier of all blocks of a cooperative launch."""

import numpy as np
from numba import cuda

from .labels import Labelled, counts, ints, labels

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "grid")


@right("Two arrays take turns, so one barrier a step is enough.", 3, 32,
       arguments=lambda: (counts(96), ints(96)), expected=lambda x, y: np.roll(y, -4))  # fmt: skip
@cuda.jit
def one_grid_barrier_a_step_with_two_arrays(spare, y):
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    following = (i + 1) % y.size
    for _ in range(2):
        spare[i] = y[following]
        grid.sync()
        y[i] = spare[following]
        grid.sync()


@wrong("The barrier of a step is missing between the second array and the next turn.", 3, 32,
       arguments=lambda: (counts(96), ints(96)))  # fmt: skip
@cuda.jit
def a_grid_barrier_every_second_step(spare, y):
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    following = (i + 1) % y.size
    for _ in range(2):
        spare[i] = y[following]
        grid.sync()
        y[i] = spare[following]


@right("Atomics of all blocks come before the barrier, plain reads after it.", 3, 32,
       arguments=lambda: (ints(96), counts(1), counts(96)), expected=lambda x, n, y: x - x.sum())  # fmt: skip
@cuda.jit
def total_then_the_grid_barrier(x, total, y):
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, x[i])
    cuda.cg.this_grid().sync()
    y[i] = x[i] - total[0]


@wrong("The first block writes the total after the barrier, where the others already read it.", 3, 32,
       arguments=lambda: (ints(96), counts(3), counts(1), counts(96)))  # fmt: skip
@cuda.jit
def total_written_after_the_grid_barrier(x, parts, total, y):
    i = cuda.grid(1)
    cuda.atomic.add(parts, cuda.blockIdx.x, x[i])
    cuda.cg.this_grid().sync()
    if i == 0:
        total[0] = parts[0] + parts[1] + parts[2]
    cuda.syncthreads()
    y[i] = x[i] - total[0]


@right("The number of turns is the same for all blocks, and blocks without work come to the barrier too.", 4, 16,
       arguments=lambda: (ints(40), counts(40)), expected=lambda x, y: 3 * x)  # fmt: skip
@cuda.jit
def blocks_without_work_come_too(x, y):
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    for _ in range(3):
        if i < x.size:
            y[i] += x[i]
        grid.sync()


@wrong("A block takes as many turns as its number says, with a barrier of the grid in each.", 4, 16,
       arguments=lambda: (counts(64),))  # fmt: skip
@cuda.jit
def more_grid_barriers_in_later_blocks(y):
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    for _ in range(cuda.blockIdx.x + 1):
        y[i] += 1
        grid.sync()


@wrong("One thread of each block stands at the barrier of the grid for all of its block.", 2, 32,
       arguments=lambda: (ints(64), counts(64), counts(64)))  # fmt: skip
@cuda.jit
def one_thread_for_its_block(x, y, z):
    i = cuda.grid(1)
    y[i] = x[i]
    if cuda.threadIdx.x == 0:
        cuda.cg.this_grid().sync()
    cuda.syncthreads()
    z[i] = y[(i + 32) % y.size]
