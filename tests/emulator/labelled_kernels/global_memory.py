"""Global memory: threads of one block or of several touch one element, under one name or under two."""

import numpy as np
from numba import cuda, float32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "global")


def overlapping(step: int) -> tuple[np.ndarray, np.ndarray]:
    """An array, and the same array from its element `step` on."""
    whole = floats(64 + step)
    return whole[:64], whole[step:]


@right("Old values come from one array and new ones go to another.", 2, 32, arguments=lambda: (floats(64), zeros(64)),
       expected=lambda x, y: np.r_[0, x[:-2] + x[2:], 0])  # fmt: skip
@cuda.jit
def stencil_into_another_array(x, y):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        y[i] = x[i - 1] + x[i + 1]


@wrong("Neighbours read elements that their owners change in the same launch.", 2, 32,
       arguments=lambda: (floats(64),))  # fmt: skip
@cuda.jit
def stencil_in_place(x):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = x[i - 1] + x[i + 1]


@right("Even elements and odd ones, as two views of one array: no element is in both.", 2, 16,
       arguments=lambda: (lambda whole: (whole[::2], whole[1::2]))(floats(64)),
       expected=lambda even, odd: 2 * even)  # fmt: skip
@cuda.jit
def even_and_odd_elements(even, odd):
    i = cuda.grid(1)
    odd[i] = 2 * even[i]


@wrong("Two arguments are one array, shifted by an element: a thread writes what its neighbour reads.", 2, 32,
       arguments=lambda: overlapping(1))  # fmt: skip
@cuda.jit
def copied_onto_itself(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@right("The windows overlap, but they are only read.", 2, 16,
       arguments=lambda: (np.lib.stride_tricks.sliding_window_view(floats(34), 3), zeros(32)),
       expected=lambda x, y: x.sum(1))  # fmt: skip
@cuda.jit
def sums_of_overlapping_windows(x, y):
    i = cuda.grid(1)
    y[i] = x[i, 0] + x[i, 1] + x[i, 2]


@wrong("The windows overlap, and each thread writes its own.", 2, 16,
       arguments=lambda: (np.lib.stride_tricks.as_strided(zeros(34), (32, 3), (4, 4)),))  # fmt: skip
@cuda.jit
def writes_overlapping_windows(y):
    i = cuda.grid(1)
    for k in range(3):
        y[i, k] = i


@right("3 has no common factor with 64, so the places 3 i mod 64 are all different.", 2, 32,
       arguments=lambda: (floats(64), zeros(64)),
       expected=lambda x, y: x[np.argsort(3 * np.arange(64) % 64)])  # fmt: skip
@cuda.jit
def scattered_by_three(x, y):
    i = cuda.grid(1)
    y[3 * i % 64] = x[i]


@wrong("6 and 64 have the factor 2 in common, so two threads meet in each place.", 2, 32,
       arguments=lambda: (floats(64), zeros(64)))  # fmt: skip
@cuda.jit
def scattered_by_six(x, y):
    i = cuda.grid(1)
    y[6 * i % 64] = x[i]


@right("The stride is the number of threads of the whole grid.", 3, 32, arguments=lambda: (floats(200),),
       expected=lambda x: x + 1)  # fmt: skip
@cuda.jit
def adds_one_by_grid_stride(x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] += 1


@wrong("The stride is that of a block, so several blocks come to the same elements.", 3, 32,
       arguments=lambda: (floats(200),))  # fmt: skip
@cuda.jit
def adds_one_by_block_stride(x):
    for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
        x[i] += 1


@right("A thread swaps both ends of its pair, and only half as many threads work.", 2, 32,
       arguments=lambda: (floats(64),), expected=lambda x: x[::-1])  # fmt: skip
@cuda.jit
def reversed_in_place(x):
    i = cuda.grid(1)
    j = x.size - 1 - i
    if i < j:
        one = x[i]
        x[i] = x[j]
        x[j] = one


@wrong("Every thread writes its element from the other end, which another thread writes too.", 2, 32,
       arguments=lambda: (floats(64),))  # fmt: skip
@cuda.jit
def reversed_in_place_by_all(x):
    i = cuda.grid(1)
    x[i] = x[x.size - 1 - i]


@right("Each thread writes the four bytes of its own word, and reads that word.", 1, 32,
       arguments=lambda: (lambda words: (words.view(np.uint8), words, counts(32)))(counts(32)),
       expected=lambda b, w, y: np.arange(32) * 0x01010101)  # fmt: skip
@cuda.jit
def bytes_of_its_own_word(parts, words, y):
    t = cuda.threadIdx.x
    for k in range(4):
        parts[4 * t + k] = t
    y[t] = words[t]


@wrong("Each thread writes the last byte of the next word, which that word's owner reads whole.", 1, 31,
       arguments=lambda: (lambda words: (words.view(np.uint8), words, counts(32)))(counts(32)))  # fmt: skip
@cuda.jit
def a_byte_of_the_next_word(parts, words, y):
    t = cuda.threadIdx.x
    parts[4 * t + 7] = t
    y[t] = words[t]


@right("All blocks write the same number.", 4, 32, arguments=lambda: (floats(128), counts(1)),
       expected=lambda x, y: [7])  # fmt: skip
@cuda.jit
def blocks_write_the_same_number(x, found):
    if x[cuda.grid(1)] > 30:
        found[0] = 7


@wrong("Two elements are equal to the one that is looked for, and each thread writes its own place.", 2, 64,
       arguments=lambda: (floats(128), counts(1)))  # fmt: skip
@cuda.jit
def place_of_a_value_that_occurs_twice(x, place):
    i = cuda.grid(1)
    if x[i] == x[2]:  # also element 103
        place[0] = i


@right("Rows go backwards and columns are rows: the views still name each element once.", 2, 32,
       arguments=lambda: (floats(4, 16)[::-1].T, zeros(16, 4)), expected=lambda x, y: 2 * x)  # fmt: skip
@cuda.jit
def a_view_turned_twice(x, y):
    i = cuda.grid(1)
    y[i // 4, i % 4] = x[i // 4, i % 4] * 2


@wrong("A row's threads need what the thread before computes: only one after the other gives the sum.", 1, 32,
       arguments=lambda: (floats(32), zeros(33)))  # fmt: skip
@cuda.jit
def running_sum_by_all_at_once(x, y):
    t = cuda.threadIdx.x
    y[t + 1] = y[t] + x[t]


@right("The index array names every place once.", 2, 32, arguments=lambda: (ints(64).argsort(), floats(64), zeros(64)),
       expected=lambda order, x, y: x[np.argsort(order)])  # fmt: skip
@cuda.jit
def scattered_by_a_permutation(order, x, y):
    i = cuda.grid(1)
    y[order[i]] = x[i]


@wrong("The tiles of two blocks share a column, and both change it.", (2, 1), (9, 8),
       arguments=lambda: (floats(8, 17), zeros(8, 17)))  # fmt: skip
@cuda.jit
def tiles_that_share_a_column(x, y):
    j = cuda.blockIdx.x * 8 + cuda.threadIdx.x
    i = cuda.threadIdx.y
    y[i, j] += x[i, j] * float32(2)


@wrong(
    "An argument is the windows of the other argument, which the kernel changes.",
    2,
    16,
    arguments=lambda: (lambda whole: (np.lib.stride_tricks.sliding_window_view(whole, 3), whole))(floats(34)),
)
@cuda.jit
def windows_of_what_is_changed(windows, y):
    i = cuda.grid(1)
    y[i + 1] = windows[i, 0] + windows[i, 2]


@wrong("Both blocks end with the same number, but one of them writes another number in between.", 2, 1,
       arguments=lambda: (counts(1),))  # fmt: skip
@cuda.jit
def another_number_in_between(state):
    state[0] = 1
    if cuda.blockIdx.x == 0:
        state[0] = 2
        state[0] = 1
