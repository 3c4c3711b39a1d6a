"""Kernels with one planted mistake each: every one must be found, at every seed, with the names that say where.

`says` holds what the message must name. Lines are named by the text that stands on them: {x[i]} is the number of the
first line of the kernel that contains `x[i]`.
"""

from __future__ import annotations

import numpy as np
from kernel_cases import Case, collector, floats, marked, zeros
from numba import cuda, float32, int32

CASES: list[Case] = []
case = collector(CASES)
FULL = 0xFFFFFFFF


@cuda.jit(device=True)
def block_maximum(s, t, value):
    """Forgets the barrier at its end: the next caller writes what others still read."""
    s[t] = value
    cuda.syncthreads()
    best = s[0]
    for k in range(1, 64):
        best = max(best, s[k])
    return best


# Missing barriers


@case(2, 64, arguments=lambda: (floats(128), marked(128)), kind="race",
      says=("s[", "{s[t] = x}", "{y[i] = s}", "syncthreads"))  # fmt: skip
@cuda.jit
def reversed_without_a_barrier(x, y):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = 0
    cuda.syncthreads()
    s[t] = x[i]
    y[i] = s[63 - t]


@case(1, 64, arguments=lambda: (floats(64), marked(1)), kind="race", says=("s[", "{s[t] += s[t + half]}", "thread"))
@cuda.jit
def tree_without_barriers(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        half //= 2
    if t == 0:
        y[0] = s[0]


@case(1, 64, arguments=lambda: (floats(64), marked(1)), kind="race", says=("s[", "{s[t] += s[t + half]}", "syncwarp"))
@cuda.jit
def tree_that_trusts_its_last_warp(x, y):
    """The last warp runs without barriers, as before Volta."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        if half > 16:
            cuda.syncthreads()
        half //= 2
    if t == 0:
        y[0] = s[0]


@case(1, 32, arguments=lambda: (floats(96), marked(32)), kind="race", says=("s[", "{s[t] = x}", "{total += s[k]}"))
@cuda.jit
def tile_without_the_second_barrier(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for start in range(0, x.size, 32):
        s[t] = x[start + t]
        cuda.syncthreads()
        for k in range(32):
            total += s[k]
    y[t] = total


@case(1, 64, arguments=lambda: (floats(64), marked(64)), kind="race", says=("s[", "{s[t] = value}", "{best = max(best"))
@cuda.jit
def device_function_without_its_last_barrier(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    first = block_maximum(s, t, x[t])
    y[t] = block_maximum(s, t, first - x[t])


@case(1, 64, arguments=lambda: (floats(64), marked(64)), kind="race",
      says=("s[0, ", "{s[now, t] = s}", "syncthreads"))  # fmt: skip
@cuda.jit
def one_buffer_where_two_are_needed(x, y):
    """The buffers never swap."""
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    now = 0
    s[0, t] = x[t]
    s[1, t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        if t >= step:
            s[now, t] = s[now, t] + s[now, t - step]
        cuda.syncthreads()
        step *= 2
    y[t] = s[now, t]


@case(1, 64, arguments=lambda: (floats(64), marked(64)), kind="race", says=("s[", "{s[t] = x}", "{y[t] = s}", "thread"))
@cuda.jit
def syncwarp_where_the_block_must_wait(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[63 - t] = 0
    cuda.syncthreads()
    s[t] = x[t]
    cuda.syncwarp()
    y[t] = s[63 - t]


@case(1, 32, arguments=lambda: (floats(32), marked(32)), kind="race",
      says=("s[", "{s[t] = x}", "{y[t] = s}", "a shuffle or a vote orders no memory"))  # fmt: skip
@cuda.jit
def shuffle_taken_for_a_fence(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[31 - t] = 0
    cuda.syncwarp()
    s[t] = x[t]
    total = cuda.shfl_xor_sync(FULL, x[t], 1)
    y[t] = s[31 - t] + total


@case(1, 32, arguments=lambda: (floats(32), marked(32)), kind="race", says=("s[", "{s[t] = x}", "{y[t] = s}"))
@cuda.jit
def syncwarp_of_half_the_lanes(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[31 - t] = 0
    cuda.syncwarp()
    s[t] = x[t]
    cuda.syncwarp(0xFFFF if t < 16 else 0xFFFF0000)
    y[t] = s[31 - t]


@case(1, 64, arguments=lambda: (np.arange(64) % 7, marked(7)), kind="race", says=("s[", "{s[t] = 0}", "{atomic.add(s}"))
@cuda.jit
def histogram_cleared_without_a_barrier(x, y):
    s = cuda.shared.array(7, float32)
    t = cuda.threadIdx.x
    if t == 0:
        for k in range(7):
            s[k] = 1
    cuda.syncthreads()
    if t < 7:
        s[t] = 0
    cuda.atomic.add(s, x[t], 1)
    cuda.syncthreads()
    if t < 7:
        y[t] = s[t]


@case(1, 64, arguments=lambda: (np.arange(64) % 7, zeros(7)), kind="race", says=("y[", "{y[x[t]] += 1}", "thread"))
@cuda.jit
def histogram_without_atomics(x, y):
    t = cuda.threadIdx.x
    y[x[t]] += 1


@case(1, 64, arguments=lambda: (floats(64), zeros(64)), kind="race", says=("y[", "{y[t] = x}", "{y[(t + 1) % 64]}"))
@cuda.jit
def global_memory_without_a_barrier(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t]
    y[t] = 2 * y[(t + 1) % 64]


@case(1, 64, arguments=lambda: (floats(64), zeros(2)), kind="race", says=("y[0]", "{y[0] = x[t]}"))
@cuda.jit
def two_threads_write_two_values(x, y):
    t = cuda.threadIdx.x
    if t % 32 == 0:
        y[0] = x[t]


@case(
    1,
    64,
    arguments=lambda: (floats(64), zeros(1)),
    kind="race",
    says=("s[0]", "{atomic.add(s, 0}", "{y[0] = s[0]}", "changes (atomically)"),
)
@cuda.jit
def plain_read_beside_an_atomic(x, y):
    s = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        s[0] = 0
    cuda.syncthreads()
    if t == 1:
        cuda.atomic.add(s, 0, x[t])
    if t == 40:
        y[0] = s[0]


# Between blocks


@case(4, 32, arguments=lambda: (floats(128), zeros(128)), kind="race",
      says=("y[", "of block", "{y[i] = x}", "{y[(i + 32)", "nothing orders blocks"))  # fmt: skip
@cuda.jit
def reads_what_a_neighbour_block_writes(x, y):
    i = cuda.grid(1)
    y[i] = x[i]
    cuda.syncthreads()
    y[i] = x[i] + 0 * y[(i + 32) % 128]


@case(3, 32, arguments=lambda: (floats(96), zeros(1)), kind="race", says=("y[0]", "of block", "{y[0] += total}"))
@cuda.jit
def blocks_add_without_an_atomic(x, y):
    total = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(FULL, total, step)
    if cuda.threadIdx.x == 0:
        y[0] += total


@case(4, 32, arguments=lambda: (floats(4), zeros(4), zeros(1, dtype=np.int32), zeros(1)), kind="race",
      says=("partial[", "of block", "{partial[b] = x}", "{y[0] += partial}"))  # fmt: skip
@cuda.jit
def last_block_without_a_fence(x, partial, count, y):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        partial[b] = x[b]
        if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
            for k in range(cuda.gridDim.x):
                y[0] += partial[k]


@case(4, 32, arguments=lambda: (floats(4), zeros(4), zeros(1, dtype=np.int32), zeros(1)), kind="race",
      says=("partial[", "of block", "{partial[b] = x}", "{y[0] += partial}"))  # fmt: skip
@cuda.jit
def last_block_with_a_fence_for_the_block_only(x, partial, count, y):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        partial[b] = x[b]
        cuda.threadfence_block()
        if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
            for k in range(cuda.gridDim.x):
                y[0] += partial[k]


@case(4, 32, arguments=lambda: (floats(4), zeros(4), zeros(1, dtype=np.int32), zeros(1)), kind="race",
      says=("partial[", "of block", "{partial[b] = x}", "{y[0] += partial}"))  # fmt: skip
@cuda.jit
def last_block_that_fences_before_it_writes(x, partial, count, y):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        partial[b] = x[b]
        if cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1:
            for k in range(cuda.gridDim.x):
                y[0] += partial[k]


# Indices


@case(
    2, 64, arguments=lambda: (floats(100), marked(100)), kind="outside", says=("lies outside x(100)", "{y[i] = x[i]}")
)
@cuda.jit
def no_guard(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@case(2, 64, arguments=lambda: (floats(100), marked(100)), kind="outside",
      says=("x[i] with i = 100: x[100] lies outside x(100)", "thread 36 of block 1"))  # fmt: skip
@cuda.jit
def guard_off_by_one(x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = x[i]


@case(
    1,
    64,
    arguments=lambda: (floats(64), marked(64)),
    kind="outside",
    says=("x[i - 1] with i = 0: x[-1] lies outside x(64)", "count it from the end", "{x[i - 1]}"),
)
@cuda.jit
def negative_index(x, y):
    i = cuda.grid(1)
    y[i] = x[i] - x[i - 1]


@case(
    (2, 2),
    (8, 8),
    arguments=lambda: (floats(10, 16), marked(10, 16)),
    kind="outside",
    says=("outside x(10, 16)", "{x[i, j]}"),
)
@cuda.jit
def x_and_y_swapped(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[1] and j < x.shape[0]:
        y[i, j] = x[i, j]


@case(1, 32, arguments=lambda: (floats(32), marked(32)), kind="outside", says=("s[", "outside s(32)", "{s[t + 1] = x}"))
@cuda.jit
def shared_array_too_small_for_the_halo(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t + 1] = x[t]
    cuda.syncthreads()
    y[t] = s[t]


@case(
    1, 32, 0, 64, arguments=lambda: (floats(32), marked(32)), kind="outside", says=("s[", "outside s(16)", "{s[t] = x}")
)
@cuda.jit
def too_little_dynamic_shared_memory(x, y):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[t]


# Nothing written


@case(
    1,
    64,
    arguments=lambda: (floats(60), marked(1)),
    kind="uninitialised",
    says=("s[6", "nothing has written it", "{y[0] += s}"),
)
@cuda.jit
def tail_of_shared_memory_never_written(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < x.size:
        s[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        for k in range(64):
            y[0] += s[k]


@case(
    1,
    64,
    arguments=lambda: (np.arange(64) % 7, zeros(7)),
    kind="uninitialised",
    says=("s[", "nothing has written it", "{atomic.add(s}"),
)
@cuda.jit
def histogram_never_cleared(x, y):
    s = cuda.shared.array(7, int32)
    cuda.atomic.add(s, x[cuda.threadIdx.x], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 7:
        y[cuda.threadIdx.x] = s[cuda.threadIdx.x]


@case(1, 32, arguments=lambda: (floats(32), marked(32)), kind="uninitialised", says=("mine[3]", "{total += mine}"))
@cuda.jit
def local_array_half_written(x, y):
    mine = cuda.local.array(4, float32)
    for k in range(3):
        mine[k] = x[cuda.threadIdx.x]
    total = float32(0)
    for k in range(4):
        total += mine[k]
    y[cuda.threadIdx.x] = total


@case(
    1,
    32,
    arguments=lambda: (floats(32), np.empty(32, np.float32)),
    kind="uninitialised",
    says=("y[", "{y[i] += x}", "begins empty"),
    options={"empty": ("y",)},
)
@cuda.jit
def adds_to_an_output_that_begins_empty(x, y):
    i = cuda.grid(1)
    y[i] += x[i]


# Barriers and warps


@case(
    1,
    64,
    arguments=lambda: (floats(64), marked(64)),
    kind="barrier",
    says=("{syncthreads}", "never come", "threads 0, 1, 2, 3 and 12 more"),
)
@cuda.jit
def barrier_in_an_if(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 16:
        cuda.syncthreads()
        y[t] = s[t]


@case(
    1,
    64,
    arguments=lambda: (floats(64), marked(64)),
    kind="barrier",
    says=("{syncthreads()  # one}", "{syncthreads()  # two}", "wait at different barriers"),
)
@cuda.jit
def two_barriers_in_two_branches(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = x[t]
        cuda.syncthreads()  # one
    else:
        cuda.syncthreads()  # two
        y[t] = x[t]


@case(1, 64, arguments=lambda: (floats(64), marked(64)), kind="barrier", says=("{syncthreads}", "never come"))
@cuda.jit
def barrier_in_a_loop_of_different_lengths(x, y):
    t = cuda.threadIdx.x
    for k in range(t // 32 + 1):
        y[t] = x[t] + k
        cuda.syncthreads()


@case(
    1,
    64,
    arguments=lambda: (floats(64), marked(64)),
    kind="warp",
    says=("{shfl_xor_sync}", "lanes that do not come", "{syncthreads()}"),
)
@cuda.jit
def shuffle_in_half_a_warp(x, y):
    """The mask names lanes that wait at the barrier instead."""
    t = cuda.threadIdx.x
    value = x[t]
    if t % 32 < 16:
        value += cuda.shfl_xor_sync(FULL, value, 1)
    cuda.syncthreads()
    y[t] = value


@case(
    1,
    32,
    arguments=lambda: (floats(20), marked(1)),
    kind="warp",
    says=("{shfl_down_sync}", "do not come", "ended before"),
)
@cuda.jit
def shuffle_after_some_have_returned(x, y):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    value = x[t]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(FULL, value, step)
    if t == 0:
        y[0] = value


@case(
    1,
    32,
    arguments=lambda: (floats(32), marked(32)),
    kind="warp",
    says=("{ballot_sync}", "does not name its lane", "0xffff"),
)
@cuda.jit
def mask_without_the_caller(x, y):
    y[cuda.threadIdx.x] = cuda.popc(cuda.ballot_sync(0xFFFF, x[cuda.threadIdx.x] > 0))


@case(1, 16, arguments=lambda: (floats(16), marked(1)), kind="warp", says=("{shfl_down_sync}", "asks lane 16", "y[0]"))
@cuda.jit
def sums_lanes_that_do_not_exist(x, y):
    value = x[cuda.threadIdx.x]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(FULL, value, step)
    if cuda.threadIdx.x == 0:
        y[0] = value


# Threads that never end


@case(
    1,
    32,
    arguments=lambda: (floats(32), marked(32)),
    kind="endless",
    says=("does not come out of", "{while half >= 0}"),
    options={"patience": 0.4},
)
@cuda.jit
def endless_loop(x, y):
    half = 16
    while half >= 0:
        half //= 2
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]


@case(
    1,
    32,
    arguments=lambda: (zeros(1, dtype=np.int32), marked(1)),
    kind="endless",
    says=("does not come out of", "{while flag[0] == 0}", "atomic"),
    options={"patience": 0.4},
)
@cuda.jit
def waits_for_a_flag_by_plain_reads(flag, y):
    t = cuda.threadIdx.x
    while flag[0] == 0:
        if t == 40:
            flag[0] = 1
    y[0] = 1


@case(
    1, 32, arguments=lambda: (zeros(1, dtype=np.int32), marked(1)), kind="deadlock", says=("Deadlock", "{atomic.cas}")
)
@cuda.jit
def lock_that_is_never_given_back(lock, y):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    y[0] = 1


@case(
    1,
    32,
    arguments=lambda: (zeros(1, dtype=np.int32), marked(1)),
    kind="deadlock",
    says=("Deadlock", "{atomic.add(flag, 0, 0)}", "{syncthreads}"),
)
@cuda.jit
def one_waits_for_those_who_wait_at_the_barrier(flag, y):
    t = cuda.threadIdx.x
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
    cuda.syncthreads()
    if t == 1:
        cuda.atomic.add(flag, 0, 1)


@case(1, 32, arguments=lambda: (floats(32), marked(32)), kind="python", says=("TypeError", "{x[t] + None}"))
@cuda.jit
def an_error_of_python(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t] + None


@case(4, 32, arguments=lambda: (floats(128), zeros(128), marked(128)), kind="race", says=("y[",), simulator=False)
@cuda.jit
def the_block_barrier_in_place_of_the_grids(x, y, z):
    i = cuda.grid(1)
    y[i] = 2 * x[i]
    cuda.syncthreads()
    z[i] = y[(i + 32) % y.size]


@case(3, 64, arguments=lambda: (floats(192), marked(192)), kind="race", says=("y[",), simulator=False)
@cuda.jit
def one_grid_barrier_a_step(x, y):
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    y[i] = x[i]
    for _ in range(4):
        grid.sync()
        y[i] = y[i] - y[(i + 1) % y.size]


@case(3, 32, arguments=lambda: (floats(96), marked(96)), kind="barrier", says=("2 of 3 blocks", "{grid.sync()}"),
      simulator=False)  # fmt: skip
@cuda.jit
def one_block_never_comes_to_the_grid_barrier(x, y):
    grid = cuda.cg.this_grid()
    if cuda.blockIdx.x == 1:
        return
    grid.sync()
    y[cuda.grid(1)] = x[cuda.grid(1)]


@case(2, 64, arguments=lambda: (floats(128), marked(128)), kind="barrier", simulator=False,
      says=("different barriers", "{sync()  # ours}"))  # fmt: skip
@cuda.jit
def half_of_a_block_waits_at_the_grid_barrier(x, y):
    if cuda.threadIdx.x < 32:
        cuda.cg.this_grid().sync()  # ours
    else:
        cuda.syncthreads()
    y[cuda.grid(1)] = x[cuda.grid(1)]
