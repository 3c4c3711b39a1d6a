"""Fences: what one thread wrote is published by a fence and an atomic, and taken up by an atomic and a fence."""

import numpy as np
from numba import cuda, int32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "fences")


def message():
    return counts(1), counts(1), counts(1)


@right("A fence before the flag is raised, and one after it is seen.", 2, 1, arguments=message,
       expected=lambda data, flag, y: [42])  # fmt: skip
@cuda.jit
def message_between_blocks(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = data[0]


@wrong("No fence between the data and the flag.", 2, 1, arguments=message)
@cuda.jit
def message_without_the_writers_fence(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = data[0]


@wrong("No fence between the flag and the read: the read may be done before.", 2, 1, arguments=message)
@cuda.jit
def message_without_the_readers_fence(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        y[0] = data[0]


@wrong("The fence is of the block, and the reader is in another block.", 2, 1, arguments=message)
@cuda.jit
def message_fenced_for_the_block(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence_block()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = data[0]


@wrong("The reader's fence is of its block, and the writer is in another block.", 2, 1, arguments=message)
@cuda.jit
def message_taken_up_for_the_block(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.threadfence()
        cuda.atomic.exch(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence_block()
        y[0] = data[0]


@wrong("The fence stands behind the atomic that raises the flag.", 2, 1, arguments=message)
@cuda.jit
def message_fenced_too_late(data, flag, y):
    if cuda.blockIdx.x == 0:
        data[0] = 42
        cuda.atomic.exch(flag, 0, 1)
        cuda.threadfence()
    else:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        cuda.threadfence()
        y[0] = data[0]


@right("Within a block, the fence of the block and a flag in shared memory are enough.", 1, 64,
       arguments=lambda: (floats(64), zeros(32)), expected=lambda x, y: x[:32][::-1])  # fmt: skip
@cuda.jit
def message_between_warps(x, y):
    s = cuda.shared.array(32, int32)
    arrived = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        arrived[0] = 0
    cuda.syncthreads()
    if t < 32:
        s[t] = x[t]
        cuda.threadfence_block()
        cuda.atomic.add(arrived, 0, 1)
    else:
        while cuda.atomic.add(arrived, 0, 0) < 32:
            pass
        cuda.threadfence_block()
        y[t - 32] = s[63 - t]


@wrong("The writers count themselves before they have fenced; a fence is no barrier.", 1, 64,
       arguments=lambda: (floats(64), zeros(32)))  # fmt: skip
@cuda.jit
def message_between_warps_counted_too_early(x, y):
    s = cuda.shared.array(32, int32)
    arrived = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = 0
    if t == 0:
        arrived[0] = 0
    cuda.syncthreads()
    if t < 32:
        cuda.atomic.add(arrived, 0, 1)
        s[t] = x[t]
        cuda.threadfence_block()
    else:
        while cuda.atomic.add(arrived, 0, 0) < 32:
            pass
        cuda.threadfence_block()
        y[t - 32] = s[63 - t]


@right(
    "The block's threads come together first; then one fence covers what all of them wrote.",
    2,
    32,
    arguments=lambda: (floats(32), zeros(32), counts(1), zeros(32)),
    expected=lambda x, d, f, y: 2 * x[::-1],
)
@cuda.jit
def one_fence_for_the_block(x, data, flag, y):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[t] = 2 * x[t]
        cuda.syncthreads()
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
    else:
        if t == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        y[t] = data[31 - t]


@wrong("One thread fences, and the others have not come together with it.", 2, 32,
       arguments=lambda: (floats(32), zeros(32), counts(1), zeros(32)))  # fmt: skip
@cuda.jit
def one_fence_without_the_barrier(x, data, flag, y):
    t = cuda.threadIdx.x
    if cuda.blockIdx.x == 0:
        data[t] = 2 * x[t]
        if t == 0:
            cuda.threadfence()
            cuda.atomic.exch(flag, 0, 1)
    else:
        if t == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
            cuda.threadfence()
        cuda.syncthreads()
        y[t] = data[31 - t]


@right(
    "Each block waits for the sum of the one before, adds its own and passes it on.",
    4,
    16,
    arguments=lambda: (ints(64), counts(4), counts(4), counts(64)),
    expected=lambda x, s, f, y: np.cumsum(x),
)
@cuda.jit
def running_sum_passed_from_block_to_block(x, sums, flags, y):
    s = cuda.shared.array(17, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    s[t + 1] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        s[0] = 0
        if b > 0:
            while cuda.atomic.add(flags, b - 1, 0) == 0:
                pass
            cuda.threadfence()
            s[0] = sums[b - 1]
        total = s[0]
        for k in range(16):
            total += s[k + 1]
        sums[b] = total
        cuda.threadfence()
        cuda.atomic.exch(flags, b, 1)
    cuda.syncthreads()
    total = s[0]
    for k in range(t + 1):
        total += s[k + 1]
    y[cuda.grid(1)] = total


@wrong("The flag is raised by a plain store.", 4, 1, arguments=lambda: (ints(4), counts(4), counts(4), counts(4)))
@cuda.jit
def flag_raised_by_a_plain_store(x, sums, flags, y):
    b = cuda.blockIdx.x
    total = x[b]
    if b > 0:
        while cuda.atomic.add(flags, b - 1, 0) == 0:
            pass
        cuda.threadfence()
        total += sums[b - 1]
    sums[b] = total
    cuda.threadfence()
    flags[b] = 1
    y[b] = total


@right("The lock's fences cover both arrays that it guards.", 3, 4, arguments=lambda: (counts(1), counts(2), counts(1)),
       expected=lambda lock, pair, y: [12])  # fmt: skip
@cuda.jit
def a_lock_around_two_arrays(lock, pair, y):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    pair[0] += 1
    pair[1] = pair[0]
    y[0] = pair[1]
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@wrong("The lock is taken and given back without any fence.", 3, 4, arguments=lambda: (counts(1), counts(1)))
@cuda.jit
def a_lock_without_fences(lock, y):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    y[0] += 1
    cuda.atomic.exch(lock, 0, 0)


@right(
    "Threads count themselves in behind a fence, and go on when all are counted: a barrier made by hand.",
    1,
    16,
    arguments=lambda: (floats(16), zeros(16), counts(1), zeros(16)),
    expected=lambda x, d, n, y: x[::-1],
)
@cuda.jit
def a_barrier_made_by_hand(x, data, number, y):
    t = cuda.threadIdx.x
    data[t] = x[t]
    cuda.threadfence_block()
    cuda.atomic.add(number, 0, 1)
    while cuda.atomic.add(number, 0, 0) < 16:
        pass
    cuda.threadfence_block()
    y[t] = data[15 - t]


@wrong("A fence is taken for a barrier.", 1, 64, arguments=lambda: (floats(64), zeros(64), zeros(64)))
@cuda.jit
def a_fence_taken_for_a_barrier(x, data, y):
    t = cuda.threadIdx.x
    data[t] = x[t]
    cuda.threadfence()
    y[t] = data[63 - t]


@right("The last block adds up: its barrier stands between the atomic and the reads, as in the programming guide.",
       3, 8, arguments=lambda: (ints(24), counts(24), counts(1), counts(1)),
       expected=lambda x, p, n, y: [x.sum()])  # fmt: skip
@cuda.jit
def the_last_block_adds_up(x, parts, number, y):
    is_last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    parts[cuda.grid(1)] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(number, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        for k in range(t, parts.size, 8):
            cuda.atomic.add(y, 0, parts[k])
