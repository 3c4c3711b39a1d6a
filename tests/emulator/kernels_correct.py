"""Kernels that are right, though several look as if they were not: no error may be found in any of them."""

from __future__ import annotations

import math

import numba
import numpy as np
from kernel_cases import Case, collector, floats, marked, zeros
from numba import cuda, float32, int32, uint32

CASES: list[Case] = []
case = collector(CASES)
FULL = 0xFFFFFFFF
N = 100
WEIGHTS = np.array([1.0, 2.0, 4.0, 8.0], np.float32)


@cuda.jit(device=True)
def warp_sum(value):
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_xor_sync(FULL, value, step)
    return value


@case(4, 32, arguments=lambda: (floats(N), marked(N)), expected=lambda x, y: x + 1)
@cuda.jit
def guard_by_return(x, y):
    i = cuda.grid(1)
    if i >= x.size:
        return
    y[i] = x[i] + float32(1)


@case(3, 32, arguments=lambda: (floats(N), marked(N)), expected=lambda x, y: 2 * x)
@cuda.jit
def grid_stride(x, y):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        y[i] = 2 * x[i]


@case(2, 64, arguments=lambda: (floats(N), marked(N)), expected=lambda x, y: x[::-1])
@cuda.jit
def early_return_before_a_barrier(x, y):
    """The threads behind the end are gone; the rest pass the barrier."""
    i = cuda.grid(1)
    if i >= x.size:
        return
    s = cuda.shared.array(64, float32)
    s[cuda.threadIdx.x] = x[x.size - 1 - i]
    cuda.syncthreads()
    y[i] = s[cuda.threadIdx.x]


@case(2, 64, arguments=lambda: (floats(N), marked(N)), expected=lambda x, y: x)
@cuda.jit
def guard_around_the_work_not_the_barrier(x, y):
    i = cuda.grid(1)
    s = cuda.shared.array(64, float32)
    if i < x.size:
        s[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    if i < x.size:
        y[i] = s[cuda.threadIdx.x]


@case(4, 256, arguments=lambda: (floats(1024), marked(4)), expected=lambda x, y: x.reshape(4, 256).sum(1))
@cuda.jit
def tree(x, y):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 128
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        y[cuda.blockIdx.x] = s[0]


@case(1, 128, arguments=lambda: (floats(128), marked(1)), expected=lambda x, y: x.sum(keepdims=True))
@cuda.jit
def tree_whose_last_warp_uses_syncwarp(x, y):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 64:
        s[t] += s[t + 64]
    cuda.syncthreads()
    if t < 32:
        half = 32
        while half > 0:
            value = s[t] + s[t + half]
            cuda.syncwarp()
            s[t] = value
            cuda.syncwarp()
            half //= 2
        if t == 0:
            y[0] = s[0]


@case(2, 64, arguments=lambda: (floats(128), marked(2)), expected=lambda x, y: x.reshape(2, 64).sum(1))
@cuda.jit
def sum_by_shuffles(x, y):
    partial = cuda.shared.array(2, float32)
    t = cuda.threadIdx.x
    value = warp_sum(x[cuda.grid(1)])
    if cuda.laneid == 0:
        partial[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        y[cuda.blockIdx.x] = partial[0] + partial[1]


@case(1, 32, arguments=lambda: (floats(32), marked(1)), expected=lambda x, y: x[:16].sum(keepdims=True))
@cuda.jit
def half_a_warp_shuffles_down(x, y):
    """Lanes 8 to 15 read lanes that do not take part, and nobody looks at what they compute."""
    t = cuda.threadIdx.x
    if t < 16:
        value = x[t]
        for step in (8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFF, value, step)
        if t == 0:
            y[0] = value


@case(1, 32, arguments=lambda: (floats(32), marked(1)), expected=lambda x, y: x[:16].max(keepdims=True))
@cuda.jit
def half_a_warp_finds_its_maximum(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        value = x[t]
        for step in (8, 4, 2, 1):
            value = max(value, cuda.shfl_down_sync(0xFFFF, value, step))
        if t == 0:
            y[0] = value


@case(1, 64, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: np.cumsum(x))
@cuda.jit
def scan_with_two_buffers(x, y):
    """Double buffering: read one, write the other, one barrier per turn."""
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    now = 0
    s[0, t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < 64:
        if t >= step:
            s[1 - now, t] = s[now, t] + s[now, t - step]
        else:
            s[1 - now, t] = s[now, t]
        now = 1 - now
        cuda.syncthreads()
        step *= 2
    y[t] = s[now, t]


@case(2, 32, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: x * x.sum())
@cuda.jit
def tiles_with_both_barriers(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for start in range(0, x.size, 32):
        s[t] = x[start + t]
        cuda.syncthreads()
        for k in range(32):
            total += s[k]
        cuda.syncthreads()
    y[cuda.grid(1)] = x[cuda.grid(1)] * total


@case(2, 32, arguments=lambda: (np.arange(64, dtype=np.int32) % 3 == 0, zeros(1)), expected=lambda x, y: np.ones(1))
@cuda.jit
def everybody_sets_the_same_flag(x, y):
    if x[cuda.grid(1)]:
        y[0] = 1.0


@case(1, 32, arguments=lambda: (np.arange(32) % 5, marked(5)), expected=lambda x, y: np.full(5, -np.inf))
@cuda.jit
def many_ban_the_same_token(tokens, scores):
    scores[tokens[cuda.threadIdx.x]] = -math.inf


@case(3, 64, arguments=lambda: (np.arange(192) % 7, zeros(7, dtype=np.int32)), expected=lambda x, y: np.bincount(x))
@cuda.jit
def histogram_by_atomics(x, y):
    cuda.atomic.add(y, x[cuda.grid(1)], 1)


@case(3, 64, arguments=lambda: (np.arange(192) % 7, zeros(7, dtype=np.int32)), expected=lambda x, y: np.bincount(x))
@cuda.jit
def histogram_in_shared_memory(x, y):
    s = cuda.shared.array(7, int32)
    t = cuda.threadIdx.x
    if t < 7:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < 7:
        cuda.atomic.add(y, t, s[t])


@case(5, 32, arguments=lambda: (floats(160), zeros(5), zeros(1, dtype=np.int32), marked(1)),
      expected=lambda x, p, c, y: x.sum(keepdims=True))  # fmt: skip
@cuda.jit
def last_block_done(x, partial, count, y):
    """The programming guide's example: a fence, an atomic, and whoever counts to the end adds up."""
    is_last = cuda.shared.array(1, int32)
    total = warp_sum(x[cuda.grid(1)])
    if cuda.threadIdx.x == 0:
        partial[cuda.blockIdx.x] = total
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0] and cuda.threadIdx.x == 0:
        whole = float32(0)
        for k in range(cuda.gridDim.x):
            whole += partial[k]
        y[0] = whole


@case(4, 32, arguments=lambda: (floats(128), zeros(128), zeros(1, dtype=np.int32), marked(32)),
      expected=lambda x, p, c, y: (2 * x).reshape(4, 32).sum(0))  # fmt: skip
@cuda.jit
def last_block_reads_what_all_threads_wrote(x, partial, count, y):
    """Every thread writes and fences; one counts for its block behind the barrier."""
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    partial[cuda.grid(1)] = 2 * x[cuda.grid(1)]
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        is_last[0] = cuda.atomic.add(count, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        total = float32(0)
        for block in range(cuda.gridDim.x):
            total += partial[block * 32 + t]
        y[t] = total


@case(3, 8, arguments=lambda: (zeros(1, dtype=np.int32), zeros(1)), expected=lambda lock, y: np.full(1, 24.0))
@cuda.jit
def a_lock(lock, y):
    """compare-and-swap until it is free; fences on both sides of what it guards."""
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    y[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@case(4, 8, arguments=lambda: (zeros(4), zeros(1, dtype=np.int32), marked(4)),
      expected=lambda a, c, y: np.full(4, 6.0))  # fmt: skip
@cuda.jit
def a_barrier_of_the_grid(a, count, y):
    """All blocks write, all wait for all, all read: blocks have to run side by side."""
    if cuda.threadIdx.x == 0:
        a[cuda.blockIdx.x] = cuda.blockIdx.x
        cuda.threadfence()
        cuda.atomic.add(count, 0, 1)
        while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x:
            pass
        cuda.threadfence()
        total = float32(0)
        for k in range(cuda.gridDim.x):
            total += a[k]
        y[cuda.blockIdx.x] = total


@case((2, 3), (8, 4), arguments=lambda: (floats(10, 15), marked(15, 10)), expected=lambda x, y: x.T)
@cuda.jit
def transpose_in_two_dimensions(x, y):
    j, i = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@case((1, 2, 2), (4, 2, 2), arguments=lambda: (floats(4, 4, 4), marked(4, 4, 4)), expected=lambda x, y: x + 1)
@cuda.jit
def three_dimensions(x, y):
    i, j, k = cuda.grid(3)
    y[i, j, k] = x[i, j, k] + 1


@case((2, 2), (32, 8), arguments=lambda: (floats(64, 64), marked(64, 64)), expected=lambda x, y: x.T)
@cuda.jit
def tiled_transpose(x, y):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column = cuda.blockIdx.x * 32 + tx
    for k in range(0, 32, 8):
        tile[ty + k, tx] = x[cuda.blockIdx.y * 32 + ty + k, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * 32 + tx
    for k in range(0, 32, 8):
        y[cuda.blockIdx.x * 32 + ty + k, column] = tile[tx, ty + k]


@case(4, 32, arguments=lambda: (floats(128), marked(128)),
      expected=lambda x, y: np.convolve(x, np.ones(3), "same"))  # fmt: skip
@cuda.jit
def stencil_with_halo(x, y):
    s = cuda.shared.array(34, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t + 1] = x[i]
    if t == 0:
        s[0] = x[i - 1] if i > 0 else 0.0
    if t == 31:
        s[33] = x[i + 1] if i + 1 < x.size else 0.0
    cuda.syncthreads()
    y[i] = s[t] + s[t + 1] + s[t + 2]


@case(2, 32, 0, 32 * 8, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: x * (np.arange(64) % 32))
@cuda.jit
def dynamic_shared_memory_in_two_parts(x, y):
    t = cuda.threadIdx.x
    values = cuda.shared.array(0, float32)[:32]
    places = cuda.shared.array(0, int32)[32:64]
    values[t] = x[cuda.grid(1)]
    places[t] = t
    cuda.syncthreads()
    y[cuda.grid(1)] = values[31 - (31 - t)] * places[t]


@case(1, 32, arguments=lambda: (floats(32), marked(32)), expected=lambda x, y: x + x[::-1])
@cuda.jit
def two_arrays_on_one_line(x, y):
    a, b = cuda.shared.array(32, float32), cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    a[t] = x[t]
    b[31 - t] = x[t]
    cuda.syncthreads()
    y[t] = a[t] + b[t]


@case(1, 32, arguments=lambda: (floats(32), marked(32)), expected=lambda x, y: 15 * x)
@cuda.jit
def local_and_constant_arrays(x, y):
    weights = cuda.const.array_like(WEIGHTS)
    mine = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        mine[k] = weights[k] * x[t]
    total = float32(0)
    for k in range(4):
        total += mine[k]
    y[t] = total


@case(1, 64, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: np.full(64, (x > 0).sum()))
@cuda.jit
def count_by_a_voting_barrier(x, y):
    t = cuda.threadIdx.x
    y[t] = cuda.syncthreads_count(int32(x[t] > 0))


@case(
    1,
    32,
    arguments=lambda: (floats(32), marked(32)),
    expected=lambda x, y: np.r_[x[x > 0], [-12345.0] * (x <= 0).sum()],
)
@cuda.jit
def compaction_by_ballot(x, y):
    value = x[cuda.threadIdx.x]
    chosen = cuda.ballot_sync(FULL, value > 0)
    if value > 0:
        y[cuda.popc(chosen & cuda.lanemask_lt())] = value


@case(1, 64, arguments=lambda: (np.arange(64), zeros(1, dtype=np.int32)), expected=lambda x, y: np.full(1, 22))
@cuda.jit
def atomics_joined_by_activemask(x, y):
    """The lanes that came here together send one of them."""
    if x[cuda.threadIdx.x] % 3 == 0:
        mask = cuda.activemask()
        leader = cuda.ffs(mask) - 1
        if cuda.laneid == leader:
            cuda.atomic.add(y, 0, cuda.popc(mask))


@case(2, 64, arguments=lambda: (floats(128), marked(128)), expected=lambda x, y: x.reshape(-1, 2)[:, ::-1].ravel())
@cuda.jit
def neighbours_swap_through_syncwarp(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncwarp()
    y[cuda.grid(1)] = s[t ^ 1]


@case(1, 64, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: x * 4)
@cuda.jit
def the_same_barrier_in_a_loop_that_all_threads_run_alike(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    for k in range(2):
        cuda.syncthreads()
        value = s[(t + 1) % 64] if k == 0 else s[(t + 63) % 64]
        cuda.syncthreads()
        s[t] = value * 2
    y[t] = s[t]


@case(1, 48, arguments=lambda: (floats(48), marked(2)), expected=lambda x, y: np.r_[x[:32].sum(), x[32:].sum()])
@cuda.jit
def a_block_that_is_no_multiple_of_32(x, y):
    t = cuda.threadIdx.x
    lanes = min(32, x.size - t // 32 * 32)
    value = x[t]
    step = 16
    while step > 0:
        other = cuda.shfl_down_sync(FULL if lanes == 32 else 0xFFFF, value, step)
        if cuda.laneid + step < lanes:
            value += other
        step //= 2
    if cuda.laneid == 0:
        y[t // 32] = value


@case(2, 32, arguments=lambda: (floats(4, 64), marked(4, 64)), expected=lambda x, y: x - x.max(1, keepdims=True))
@cuda.jit
def rows_as_views(x, y):
    for r in range(cuda.blockIdx.x, x.shape[0], cuda.gridDim.x):
        row, out = x[r], y[r, :]
        best = float32(-math.inf)
        for k in range(cuda.threadIdx.x, row.size, 32):
            best = max(best, row[k])
        for step in (16, 8, 4, 2, 1):
            best = max(best, cuda.shfl_xor_sync(FULL, best, step))
        for k in range(cuda.threadIdx.x, row.size, 32):
            out[k] = row[k] - best


@case(1, 32, arguments=lambda: (np.arange(32, dtype=np.uint32), zeros(32, dtype=np.uint32)),
      expected=lambda x, y: ((x.astype(np.uint64) * 2654435761) & 0xFFFFFFFF).astype(np.uint32))  # fmt: skip
@cuda.jit
def a_hash_that_wraps(x, y):
    y[cuda.threadIdx.x] = uint32(x[cuda.threadIdx.x] * 2654435761)


@case(1, 32, arguments=lambda: (floats(32), marked(32)), expected=lambda x, y: np.where(x > 0, x, -np.inf))
@cuda.jit
def mathematics_outside_its_domain(x, y):
    """log(0) is -inf on a GPU, where Python raises."""
    value = x[cuda.threadIdx.x]
    y[cuda.threadIdx.x] = value if value > 0 else math.log(numba.float32(0))


@case(2, 32, arguments=lambda: (floats(64), marked(64)), expected=lambda x, y: x + 1)
@cuda.jit
def in_place_through_two_names(x, y):
    """Each thread alone touches its element, though under several names."""
    i = cuda.grid(1)
    y[i] = x[i]
    y[i] += 1
    z = y[cuda.blockIdx.x * 32 : (cuda.blockIdx.x + 1) * 32]
    z[cuda.threadIdx.x] = z[cuda.threadIdx.x] * 1


@case(4, 32, arguments=lambda: (floats(128), zeros(128), marked(128)), expected=lambda x, y, z: 2 * np.roll(x, 96),
      simulator=False)  # fmt: skip
@cuda.jit
def reads_another_block_after_the_grid_barrier(x, y, z):
    i = cuda.grid(1)
    y[i] = 2 * x[i]
    cuda.cg.this_grid().sync()
    z[i] = y[(i + 32) % y.size]


@case(3, 64, arguments=lambda: (floats(192), marked(192)), expected=lambda x, y: smoothed(x, 4), simulator=False)
@cuda.jit
def steps_between_grid_barriers(x, y):
    """Each step reads what all blocks wrote in the step before; a second barrier keeps the next one from writing."""
    i, grid = cuda.grid(1), cuda.cg.this_grid()
    y[i] = x[i]
    for _ in range(4):
        grid.sync()
        neighbour = y[(i + 1) % y.size]
        grid.sync()
        y[i] = y[i] - neighbour


def smoothed(x, steps):
    for _ in range(steps):
        x = x - np.roll(x, -1)
    return x


@case(2, 64, arguments=lambda: (floats(128), zeros(2), marked(2)), expected=lambda x, part, y: np.full(2, x.sum()),
      simulator=False)  # fmt: skip
@cuda.jit
def barriers_of_blocks_and_of_the_grid(x, part, y):
    shared = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(64):
            total += shared[k]
        part[cuda.blockIdx.x] = total
    cuda.cg.this_grid().sync()
    if t == 0:
        y[cuda.blockIdx.x] = part[0] + part[1]
