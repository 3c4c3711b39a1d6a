"""Shared memory: two threads of a block touch one element, and a barrier lies between them, or is missing."""

import numpy as np
from numba import cuda, float32, float64, int32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "shared")


@right("Two buffers take turns, so one barrier a step is enough.", 1, 64,
       arguments=lambda: (floats(5, 64), zeros(64)), expected=lambda x, y: x[:, ::-1].sum(0))  # fmt: skip
@cuda.jit
def one_barrier_a_step_with_two_buffers(x, y):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(5):
        s[k % 2, t] = x[k, t]
        cuda.syncthreads()
        total += s[k % 2, 63 - t]
    y[t] = total


@wrong("The buffer changes every second step only, so a step writes what the step before still reads.", 1, 64,
       arguments=lambda: (floats(5, 64), zeros(64)))  # fmt: skip
@cuda.jit
def two_buffers_that_change_too_seldom(x, y):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(5):
        s[k // 2 % 2, t] = x[k, t]
        cuda.syncthreads()
        total += s[k // 2 % 2, 63 - t]
    y[t] = total


@right("The float64 part begins behind the 64 float32 numbers: 256 bytes, 32 elements of 8.", 1, 64, 0, 64 * 4 + 8 * 8,
       arguments=lambda: (floats(64), zeros(64)), expected=lambda x, y: x + np.arange(64) % 8)  # fmt: skip
@cuda.jit
def two_types_side_by_side(x, y):
    numbers = cuda.shared.array(0, float32)
    wide = cuda.shared.array(0, float64)[32:]
    t = cuda.threadIdx.x
    numbers[t] = x[t]
    if t < 8:
        wide[t] = t
    cuda.syncthreads()
    y[t] = numbers[t] + wide[t % 8]


@wrong("The float64 part begins at element 16, which is byte 128: in the middle of the float32 numbers.", 1, 64, 0,
       64 * 4 + 8 * 8, arguments=lambda: (floats(64), zeros(64)))  # fmt: skip
@cuda.jit
def two_types_that_overlap(x, y):
    numbers = cuda.shared.array(0, float32)
    wide = cuda.shared.array(0, float64)[16:]
    t = cuda.threadIdx.x
    numbers[t] = x[t]
    if t < 8:
        wide[t] = t
    cuda.syncthreads()
    y[t] = numbers[t] + wide[t % 8]


@right("A barrier lies between the reads and the writes of the transposition in place.", 1, (8, 8),
       arguments=lambda: (floats(8, 8), zeros(8, 8)), expected=lambda x, y: x.T)  # fmt: skip
@cuda.jit
def transposed_in_place(x, y):
    s = cuda.shared.array((8, 8), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = x[i, j]
    cuda.syncthreads()
    value = s[j, i]
    cuda.syncthreads()
    s[i, j] = value
    y[i, j] = s[i, j]


@wrong("Some threads write their element before its owner's partner has read it.", 1, (8, 8),
       arguments=lambda: (floats(8, 8), zeros(8, 8)))  # fmt: skip
@cuda.jit
def transposed_in_place_without_waiting(x, y):
    s = cuda.shared.array((8, 8), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = x[i, j]
    cuda.syncthreads()
    value = s[j, i]
    s[i, j] = value
    y[i, j] = s[i, j]


@right("All threads that write the flag write 1.", 1, 64, arguments=lambda: (floats(64), counts(1)),
       expected=lambda x, y: [1])  # fmt: skip
@cuda.jit
def many_raise_one_flag(x, y):
    found = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        found[0] = 0
    cuda.syncthreads()
    if x[t] < 0:
        found[0] = 1
    cuda.syncthreads()
    if t == 0:
        y[0] = found[0]


@wrong("Each thread that writes the flag writes its own number, and one of them wins by chance.", 1, 64,
       arguments=lambda: (floats(64), counts(1)))  # fmt: skip
@cuda.jit
def many_leave_their_number(x, y):
    found = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        found[0] = 0
    cuda.syncthreads()
    if x[t] < 0:
        found[0] = t
    cuda.syncthreads()
    if t == 0:
        y[0] = found[0]


@right("Each warp has a row of its own, so the barrier of the warp is enough.", 1, (32, 4),
       arguments=lambda: (floats(4, 32), zeros(4, 32)), expected=lambda x, y: np.roll(x, -1, axis=1))  # fmt: skip
@cuda.jit
def a_row_of_its_own_for_each_warp(x, y):
    s = cuda.shared.array((4, 32), float32)
    lane, warp = cuda.threadIdx.x, cuda.threadIdx.y
    s[warp, lane] = x[warp, lane]
    cuda.syncwarp()
    y[warp, lane] = s[warp, (lane + 1) % 32]


@wrong("A warp reads the row of the next warp after a barrier of its own warp.", 1, (32, 4),
       arguments=lambda: (floats(4, 32), zeros(4, 32)))  # fmt: skip
@cuda.jit
def reads_the_next_warps_row(x, y):
    s = cuda.shared.array((4, 32), float32)
    lane, warp = cuda.threadIdx.x, cuda.threadIdx.y
    s[warp, lane] = 0
    cuda.syncthreads()
    s[warp, lane] = x[warp, lane]
    cuda.syncwarp()
    y[warp, lane] = s[(warp + 1) % 4, lane]


@right("A thread comes back to its own element; no other touches it.", 1, 64,
       arguments=lambda: (floats(64), zeros(64)), expected=lambda x, y: 8 * x)  # fmt: skip
@cuda.jit
def own_element_without_a_barrier(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    for _ in range(3):
        s[t] += s[t]
    y[t] = s[t]


@wrong("A column has one element for four threads, which add to it without an atomic.", 1, 64,
       arguments=lambda: (ints(64), counts(16)))  # fmt: skip
@cuda.jit
def four_threads_add_to_one_column(x, y):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = 0
    cuda.syncthreads()
    s[t % 16] += x[t]
    cuda.syncthreads()
    if t < 16:
        y[t] = s[t]


@right("Within a phase one thread has both elements of a pair.", 1, 32, arguments=lambda: (ints(64), counts(64)),
       expected=lambda x, y: np.sort(x))  # fmt: skip
@cuda.jit
def bitonic_sort(x, y):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 32] = x[t + 32]
    size = 2
    while size <= 64:
        step = size // 2
        while step > 0:
            cuda.syncthreads()
            low = 2 * t - (t & (step - 1))
            is_up = (low & size) == 0
            if (s[low] > s[low + step]) == is_up:
                one = s[low]
                s[low] = s[low + step]
                s[low + step] = one
            step //= 2
        size *= 2
    cuda.syncthreads()
    y[t] = s[t]
    y[t + 32] = s[t + 32]


@wrong("The barrier stands outside of the loop over the steps of a phase.", 1, 32,
       arguments=lambda: (ints(64), counts(64)))  # fmt: skip
@cuda.jit
def bitonic_sort_with_a_barrier_a_phase(x, y):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + 32] = x[t + 32]
    size = 2
    while size <= 64:
        step = size // 2
        cuda.syncthreads()
        while step > 0:
            low = 2 * t - (t & (step - 1))
            is_up = (low & size) == 0
            if (s[low] > s[low + step]) == is_up:
                one = s[low]
                s[low] = s[low + step]
                s[low + step] = one
            step //= 2
        size *= 2
    cuda.syncthreads()
    y[t] = s[t]
    y[t + 32] = s[t + 32]


@right("Odd elements are written while even ones are read: never the same.", 1, 32,
       arguments=lambda: (floats(64), zeros(64)),
       expected=lambda x, y: np.stack([x[::2], x[::2] + np.roll(x[::2], -1)], 1).ravel())  # fmt: skip
@cuda.jit
def odd_elements_from_even_ones(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[2 * t] = x[2 * t]
    cuda.syncthreads()
    s[2 * t + 1] = s[2 * t] + s[(2 * t + 2) % 64]
    y[2 * t] = s[2 * t]
    y[2 * t + 1] = s[2 * t + 1]


@wrong("Thread 0 clears the flag of the next turn while others still read this one's.", 1, 64,
       arguments=lambda: (floats(64), zeros(64)))  # fmt: skip
@cuda.jit
def flag_of_the_next_turn_too_early(x, y):
    goes_on = cuda.shared.array(1, int32)
    t, turn = cuda.threadIdx.x, 0
    while True:
        if t == 0:
            goes_on[0] = turn < 3
        cuda.syncthreads()
        if not goes_on[0]:
            break
        y[t] += x[t]
        turn += 1


@right("A barrier lies between the last use as float32 and the first as int32.", 1, 32, 0, 128,
       arguments=lambda: (floats(32), counts(32)), expected=lambda x, y: 31 - np.arange(32) + x)  # fmt: skip
@cuda.jit
def one_memory_for_two_types_in_turn(x, y):
    numbers = cuda.shared.array(0, float32)
    places = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    numbers[t] = x[t]
    cuda.syncthreads()
    value = numbers[t]
    cuda.syncthreads()
    places[31 - t] = t
    cuda.syncthreads()
    y[t] = places[t] + int32(value)


@wrong("Lanes of one warp are taken to run in step: no syncwarp between the write and the neighbour's read.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)))  # fmt: skip
@cuda.jit
def lanes_taken_to_run_in_step(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = 0
    cuda.syncwarp()
    s[t] = x[t]
    y[t] = s[t ^ 1]
