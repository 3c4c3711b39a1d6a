"""Barriers and warp operations that some threads do not come to, or seem not to come to."""

import numpy as np
from numba import cuda, float32, int32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "divergence")
FULL = 0xFFFFFFFF


@cuda.jit(device=True)
def shared_after_a_barrier(s, t, value):
    s[t] = value
    cuda.syncthreads()
    return s[63 - t]


@right("All threads take as many turns, for the loop ends at a multiple of the block's size.", 1, 64,
       arguments=lambda: (floats(100), zeros(64)),
       expected=lambda x, y: np.r_[x, np.zeros(28)].reshape(2, 64)[:, ::-1].sum(0))  # fmt: skip
@cuda.jit
def loop_rounded_up(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(t, 128 + t, 64):
        s[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        total += s[63 - t]
        cuda.syncthreads()
    y[t] = total


@wrong("The last turn of the loop has 36 threads of 64.", 1, 64, arguments=lambda: (floats(100), zeros(64)))
@cuda.jit
def loop_with_a_last_turn_for_some(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for i in range(t, x.size, 64):
        s[t] = x[i]
        cuda.syncthreads()
        y[t] += s[t]


@right("The number of turns is read from memory, but it is one number for the whole block.", 2, 64,
       arguments=lambda: (np.array([1, 3], np.int32), floats(128), zeros(128)),
       expected=lambda turns, x, y: (x.reshape(2, 64) * np.where(turns % 2, -1, 1)[:, None]).ravel())  # fmt: skip
@cuda.jit
def as_many_turns_as_the_block_wants(turns, x, y):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    for _ in range(turns[cuda.blockIdx.x]):
        cuda.syncthreads()
        s[t] = -s[t]
    y[i] = s[t]


@wrong("A thread whose element is negative skips the barrier by `continue`.", 1, 64,
       arguments=lambda: (floats(3, 64), zeros(64)))  # fmt: skip
@cuda.jit
def continues_past_the_barrier(x, y):
    t = cuda.threadIdx.x
    for k in range(3):
        if x[k, t] < 0:
            continue
        y[t] += x[k, t]
        cuda.syncthreads()


@right(
    "A whole block leaves early, so no thread of it is missing.",
    3,
    64,
    arguments=lambda: (floats(128), zeros(128)),
    expected=lambda x, y: x.reshape(2, 64)[:, ::-1].ravel(),
)
@cuda.jit
def a_whole_block_leaves_early(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if cuda.blockIdx.x * 64 >= x.size:
        return
    y[cuda.grid(1)] = shared_after_a_barrier(s, t, x[cuda.grid(1)])


@wrong("The function has a barrier, and half of the threads call it.", 1, 64,
       arguments=lambda: (floats(64), zeros(64)))  # fmt: skip
@cuda.jit
def half_of_the_threads_call_it(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = 0
    if t % 2 == 0:
        y[t] = shared_after_a_barrier(s, t, x[t])


@right(
    "Each half of the warp shuffles under a mask that names that half.",
    1,
    32,
    arguments=lambda: (floats(32), zeros(32)),
    expected=lambda x, y: x[np.arange(32) ^ np.r_[[1] * 16, [2] * 16]],
)
@cuda.jit
def two_halves_with_a_mask_each(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = cuda.shfl_xor_sync(0x0000FFFF, x[t], 1)
    else:
        y[t] = cuda.shfl_xor_sync(0xFFFF0000, x[t], 2)


@wrong("The masks of the two halves are exchanged.", 1, 32, arguments=lambda: (floats(32), zeros(32)))
@cuda.jit
def two_halves_with_exchanged_masks(x, y):
    t = cuda.threadIdx.x
    if t < 16:
        y[t] = cuda.shfl_xor_sync(0xFFFF0000, x[t], 1)
    else:
        y[t] = cuda.shfl_xor_sync(0x0000FFFF, x[t], 2)


@right("Each branch has a barrier, but the branch is the block's, not the thread's.", 2, 64,
       arguments=lambda: (floats(128), zeros(128)),
       expected=lambda x, y: np.r_[x[:64][::-1], np.roll(x[64:], -1)])  # fmt: skip
@cuda.jit
def a_barrier_in_each_branch_of_the_block(x, y):
    s = cuda.shared.array(64, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i]
    if cuda.blockIdx.x % 2 == 0:
        cuda.syncthreads()
        y[i] = s[63 - t]
    else:
        cuda.syncthreads()
        y[i] = s[(t + 1) % 64]


@wrong("One warp counts at its barrier while the other waits at a plain one.", 1, 64,
       arguments=lambda: (floats(64), zeros(64)))  # fmt: skip
@cuda.jit
def two_kinds_of_barrier(x, y):
    t = cuda.threadIdx.x
    if t < 32:
        y[t] = cuda.syncthreads_count(int32(x[t] > 0))
    else:
        cuda.syncthreads()
        y[t] = x[t]


@right("A vote finds the lanes that have an element; they alone shuffle, under a mask that names them.", 1, 32,
       arguments=lambda: (floats(21), zeros(1)), expected=lambda x, y: [x.sum()])  # fmt: skip
@cuda.jit
def the_lanes_that_have_an_element(x, y):
    t = cuda.threadIdx.x
    mask = cuda.ballot_sync(FULL, t < x.size)
    if t < x.size:
        value, step = x[t], 16
        while step > 0:
            other = cuda.shfl_down_sync(mask, value, step)
            if t + step < x.size:
                value += other
            step //= 2
        if t == 0:
            y[0] = value


@wrong("In the last turn some lanes have left the loop, and the mask still names them.", 1, 32,
       arguments=lambda: (floats(52), zeros(32)))  # fmt: skip
@cuda.jit
def shuffle_in_a_last_turn_for_some(x, y):
    t = cuda.threadIdx.x
    for i in range(t, x.size, 32):
        y[t] += cuda.shfl_xor_sync(FULL, x[i], 1)


@right("All threads leave the loop in the same turn, by a vote at the barrier.", 1, 16,
       arguments=lambda: (ints(32), counts(32)), expected=lambda x, y: np.sort(x))  # fmt: skip
@cuda.jit
def odd_even_sort_until_nothing_moves(x, y):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[2 * t] = x[2 * t]
    s[2 * t + 1] = x[2 * t + 1]
    cuda.syncthreads()
    while True:
        has_moved = 0
        for first in range(2):
            k = 2 * t + first
            if k + 1 < 32 and s[k] > s[k + 1]:
                one = s[k]
                s[k] = s[k + 1]
                s[k + 1] = one
                has_moved = 1
            cuda.syncthreads()
        if not cuda.syncthreads_or(has_moved):
            break
    y[2 * t] = s[2 * t]
    y[2 * t + 1] = s[2 * t + 1]


@wrong("A thread that has found its element leaves the loop in which the others wait for it.", 1, 64,
       arguments=lambda: (floats(4, 64), counts(64)))  # fmt: skip
@cuda.jit
def leaves_the_loop_with_the_barrier(x, y):
    t = cuda.threadIdx.x
    for k in range(4):
        if x[k, t] > 40:
            y[t] = k
            break
        cuda.syncthreads()


@right("The barrier of the warp names the lanes of the branch, and these alone.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)), expected=lambda x, y: np.r_[x[:8][::-1], x[8:]])  # fmt: skip
@cuda.jit
def a_barrier_for_eight_lanes(x, y):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = x[t]
        cuda.syncwarp(0xFF)
        y[t] = s[7 - t]
    else:
        y[t] = x[t]


@wrong("The barrier of the warp names 16 lanes, of which eight wait at the barrier of the block.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)))  # fmt: skip
@cuda.jit
def a_barrier_for_lanes_that_wait_elsewhere(x, y):
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = x[t]
        cuda.syncwarp(0xFFFF)
        y[t] = s[7 - t]
    cuda.syncthreads()
    y[t] += x[t]


@right("Lanes above 24 read lanes that do not take part, and drop what they get.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)),
       expected=lambda x, y: np.r_[x[:16] + x[8:24], x[16:24], x[24:]])  # fmt: skip
@cuda.jit
def a_shuffled_number_that_is_dropped(x, y):
    t = cuda.threadIdx.x
    value = x[t]
    if t < 24:
        other = cuda.shfl_down_sync(0x00FFFFFF, value, 8)
        value = value + other if t < 16 else value
    y[t] = value


@wrong("The lanes of the branch read lane 24, which is not in it.", 1, 32, arguments=lambda: (floats(32), zeros(32)))
@cuda.jit
def reads_a_lane_outside_of_the_branch(x, y):
    t = cuda.threadIdx.x
    if t < 24:
        y[t] = cuda.shfl_sync(0x00FFFFFF, x[t], 24)


@wrong("`activemask` is taken to name all lanes; the lanes of a warp need not be together there.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)))  # fmt: skip
@cuda.jit
def activemask_taken_for_the_whole_warp(x, y):
    t = cuda.threadIdx.x
    y[t] = cuda.shfl_xor_sync(cuda.activemask(), x[t], 16)
