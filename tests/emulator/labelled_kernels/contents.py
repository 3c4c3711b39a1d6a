"""Memory that nothing was written to, and elements that an array does not have."""

import numpy as np
from numba import cuda, float32, float64, int16, int32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "uninitialised")

TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)


@right("Every element is written, by one branch or the other.", 1, 64, arguments=lambda: (floats(50), zeros(64)),
       expected=lambda x, y: np.r_[x, [-1] * 14][::-1])  # fmt: skip
@cuda.jit
def written_by_one_branch_or_the_other(x, y):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < x.size:
        s[t] = x[t]
    else:
        s[t] = -1
    cuda.syncthreads()
    y[t] = s[63 - t]


@wrong("Nothing writes the corners of the tile.", 1, (8, 8), arguments=lambda: (floats(8, 8), zeros(8, 8)))
@cuda.jit
def corners_of_a_tile(x, y):
    s = cuda.shared.array((10, 10), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i + 1, j + 1] = x[i, j]
    if i == 0:
        s[0, j + 1] = 0
        s[9, j + 1] = 0
    if j == 0:
        s[i + 1, 0] = 0
        s[i + 1, 9] = 0
    cuda.syncthreads()
    y[i, j] = s[i, j] + s[i + 2, j + 2]


@right("The first turn writes what the later ones add to.", 1, 32, arguments=lambda: (floats(4, 32), zeros(32)),
       expected=lambda x, y: x.sum(0))  # fmt: skip
@cuda.jit
def first_turn_writes(x, y):
    total = cuda.local.array(1, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        if k == 0:
            total[0] = x[k, t]
        else:
            total[0] += x[k, t]
    y[t] = total[0]


@wrong("The thread's own sums are never set to zero.", 1, 32, arguments=lambda: (ints(4, 32), counts(32)))
@cuda.jit
def sums_that_begin_with_anything(x, y):
    sums = cuda.local.array(2, int32)
    t = cuda.threadIdx.x
    for k in range(4):
        sums[k % 2] += x[k, t]
    y[t] = sums[0] - sums[1]


@right("The output begins empty, but each thread writes its element before it reads it.", 2, 32,
       arguments=lambda: (floats(64), zeros(64)), expected=lambda x, y: 2 * x, empty=("y",))  # fmt: skip
@cuda.jit
def writes_before_it_adds(x, y):
    i = cuda.grid(1)
    y[i] = x[i]
    y[i] += x[i]


@wrong("The output begins empty, and atomics add to it.", 2, 32, arguments=lambda: (ints(64), counts(4)),
       empty=("y",))  # fmt: skip
@cuda.jit
def adds_to_what_begins_empty(x, y):
    i = cuda.grid(1)
    cuda.atomic.add(y, i % 4, x[i])


@right("Two int16 halves are written, then read as one int32.", 1, 32, 0, 128,
       arguments=lambda: (ints(32), counts(32)), expected=lambda x, y: (np.arange(32) << 16) + 7)  # fmt: skip
@cuda.jit
def halves_read_as_a_whole(x, y):
    halves = cuda.shared.array(0, int16)
    whole = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    halves[2 * t] = 7
    halves[2 * t + 1] = t
    y[t] = whole[t]


@wrong("One half of a float64 is written before it is read whole.", 1, 16, 0, 128,
       arguments=lambda: (floats(16), zeros(16)))  # fmt: skip
@cuda.jit
def half_of_a_number(x, y):
    halves = cuda.shared.array(0, float32)
    whole = cuda.shared.array(0, float64)
    t = cuda.threadIdx.x
    halves[2 * t] = x[t]
    y[t] = whole[t]


@right("One array under two names: what is written through one is read through the other.", 2, 16,
       arguments=lambda: (lambda whole: (floats(32), whole, whole[::-1]))(zeros(32)),
       expected=lambda x, y, turned: x[::-1], empty=("y", "turned"))  # fmt: skip
@cuda.jit
def written_under_another_name(x, y, turned):
    i = cuda.grid(1)
    y[i] = x[i] - 1
    turned[turned.size - 1 - i] += 1


@wrong("Four warps leave a sum each, and the last step reads 32 of them.", 1, 128,
       arguments=lambda: (ints(128), counts(1)))  # fmt: skip
@cuda.jit
def more_sums_than_warps(x, y):
    sums = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    value = x[t]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if t % 32 == 0:
        sums[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = sums[t]
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        if t == 0:
            y[0] = value


right, wrong = labels(KERNELS, "outside")


@right("Indices are clamped to both ends.", 2, 32, arguments=lambda: (floats(64), zeros(64)),
       expected=lambda x, y: x[np.maximum(np.arange(64) - 1, 0)] + x[np.minimum(np.arange(64) + 1, 63)])  # fmt: skip
@cuda.jit
def clamped_to_both_ends(x, y):
    i = cuda.grid(1)
    y[i] = x[max(i - 1, 0)] + x[min(i + 1, x.size - 1)]


@wrong("The upper clamp is the size, not the last index.", 2, 32, arguments=lambda: (floats(64), zeros(64)))
@cuda.jit
def clamped_one_too_high(x, y):
    i = cuda.grid(1)
    y[i] = x[max(i - 1, 0)] + x[min(i + 1, x.size)]


@right("The remainder of a negative number is positive in Python, and in Numba.", 2, 32,
       arguments=lambda: (floats(64), zeros(64)), expected=lambda x, y: x - np.roll(x, 1))  # fmt: skip
@cuda.jit
def wraps_round_the_ring(x, y):
    i = cuda.grid(1)
    y[i] = x[i] - x[(i - 1) % x.size]


@wrong("A value of zero gives the index -1.", 1, 64, arguments=lambda: (np.arange(64, dtype=np.int32) % 8, counts(8)))
@cuda.jit
def counts_from_one(x, y):
    cuda.atomic.add(y, x[cuda.threadIdx.x] - 1, 1)


@right("`and` asks for the element behind the last one only if there is one.", 2, 40,
       arguments=lambda: (ints(64), counts(64)),
       expected=lambda x, y: np.r_[x[1:] > x[:-1], False])  # fmt: skip
@cuda.jit
def asks_only_if_there_is_one(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = i + 1 < x.size and x[i + 1] > x[i]


@wrong("The order of the two questions is exchanged.", 2, 40, arguments=lambda: (ints(64), counts(64)))
@cuda.jit
def asks_before_it_knows(x, y):
    i = cuda.grid(1)
    if i < x.size and x[i + 1] > x[i] and i + 1 < x.size:
        y[i] = 1


@right("The last element is named by -1, which Numba counts from the end.", 1, 32,
       arguments=lambda: (floats(32), zeros(32)), expected=lambda x, y: x - x[-1])  # fmt: skip
@cuda.jit
def less_the_last_one(x, y):
    t = cuda.threadIdx.x
    y[t] = x[t] - x[-1]


@wrong("The index of the right neighbour runs from the end of one row into the next.", 1, (8, 4),
       arguments=lambda: (floats(5, 8), zeros(4, 8)))  # fmt: skip
@cuda.jit
def out_of_its_row(x, y):
    row = x[cuda.threadIdx.y]
    j = cuda.threadIdx.x
    y[cuda.threadIdx.y, j] = row[j + 1]


@right("The search ends at x.size at most, and an element is read only below that.", 1, 32,
       arguments=lambda: (np.arange(0, 40, 2, dtype=np.int32), counts(32)),
       expected=lambda x, y: np.searchsorted(x, 2 * np.arange(32)))  # fmt: skip
@cuda.jit
def binary_search(x, y):
    t = cuda.threadIdx.x
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < 2 * t:
            low = middle + 1
        else:
            high = middle
    y[t] = low


@wrong("The index is computed in 32 bits, which are too few: from 2**31 on it is negative.", 1, 8,
       arguments=lambda: (np.int32(2**28), zeros(16), zeros(8)))  # fmt: skip
@cuda.jit
def an_index_of_32_bits(step, x, y):
    t = cuda.threadIdx.x
    y[t] = x[int32(2 * t * step) >> 28]


@wrong("The table has eight entries, and the key 8 occurs.", 1, 32,
       arguments=lambda: (np.arange(32, dtype=np.int32) % 9, counts(32)))  # fmt: skip
@cuda.jit
def key_beyond_the_table(x, y):
    table = cuda.const.array_like(TABLE)
    y[cuda.threadIdx.x] = table[x[cuda.threadIdx.x]]


@wrong("A thread's own array has a place for each of four values, and five occur.", 1, 32,
       arguments=lambda: (np.arange(64, dtype=np.int32).reshape(2, 32) % 5, counts(32)))  # fmt: skip
@cuda.jit
def one_value_too_many(x, y):
    seen = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    for k in range(4):
        seen[k] = 0
    for k in range(2):
        seen[x[k, t]] += 1
    y[t] = seen[0]


@wrong("The guard asks for the rows only; the last block has columns to spare.", (2, 1), (16, 8),
       arguments=lambda: (floats(8, 30), zeros(8, 30)))  # fmt: skip
@cuda.jit
def guard_of_one_axis(x, y):
    j, i = cuda.grid(2)
    if i < x.shape[0]:
        y[i, j] = x[i, j]
