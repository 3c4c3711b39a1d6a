"""Atomics: what they order, what they do not, and plain accesses to the element that they change."""

import numpy as np
from numba import cuda, float32, int32

from .labels import Labelled, counts, floats, ints, labels, zeros

KERNELS: list[Labelled] = []
right, wrong = labels(KERNELS, "atomics")


@right("The number that the atomic gives back is each thread's own.", 2, 32,
       arguments=lambda: (np.arange(1, 65, dtype=np.int32), counts(1), counts(64)),
       expected=lambda x, n, y: None)  # fmt: skip
@cuda.jit
def a_place_from_the_atomic(x, number, y):
    i = cuda.grid(1)
    y[cuda.atomic.add(number, 0, 1)] = x[i]


@wrong("The place is read again after the atomic: other threads may have counted on.", 2, 32,
       arguments=lambda: (np.arange(1, 65, dtype=np.int32), counts(1), counts(65)))  # fmt: skip
@cuda.jit
def a_place_read_after_the_atomic(x, number, y):
    i = cuda.grid(1)
    cuda.atomic.add(number, 0, 1)
    y[number[0]] = x[i]


@right("A barrier lies between the atomics and the plain reads.", 1, 64, arguments=lambda: (ints(64), counts(64)),
       expected=lambda x, y: x - x.min())  # fmt: skip
@cuda.jit
def the_least_then_a_barrier(x, y):
    least = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        least[0] = 1000
    cuda.syncthreads()
    cuda.atomic.min(least, 0, x[t])
    cuda.syncthreads()
    y[t] = x[t] - least[0]


@wrong("Threads read the least plainly while others still lower it.", 1, 64,
       arguments=lambda: (ints(64), counts(64)))  # fmt: skip
@cuda.jit
def the_least_read_at_once(x, y):
    least = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        least[0] = 1000
    cuda.syncthreads()
    if t >= 32:
        cuda.atomic.min(least, 0, x[t])
    else:
        y[t] = x[t] - least[0]


@right("A ticket gives the turn, and fences stand on both sides of what it guards.", 3, 4,
       arguments=lambda: (counts(1), counts(1), counts(1)), expected=lambda a, b, y: [12])  # fmt: skip
@cuda.jit
def ticket_lock(ticket, serving, y):
    mine = cuda.atomic.add(ticket, 0, 1)
    while cuda.atomic.add(serving, 0, 0) != mine:
        pass
    cuda.threadfence()
    y[0] += 1
    cuda.threadfence()
    cuda.atomic.add(serving, 0, 1)


@wrong("The lock is given back by a plain store.", 3, 4, arguments=lambda: (counts(1), counts(1)))
@cuda.jit
def lock_given_back_by_a_plain_store(lock, y):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    y[0] += 1
    cuda.threadfence()
    lock[0] = 0


@right("The loop of compare-and-swap goes on until no other thread came between.", 2, 16,
       arguments=lambda: (np.tile([1, 2], 16).astype(np.int32), np.ones(1, np.int32)),
       expected=lambda x, y: [2**16])  # fmt: skip
@cuda.jit
def a_product_by_compare_and_swap(x, y):
    factor = x[cuda.grid(1)]
    seen = cuda.atomic.add(y, 0, 0)
    while True:
        before = cuda.atomic.cas(y, 0, seen, seen * factor)
        if before == seen:
            break
        seen = before


@wrong("The product is computed from a plain read.", 2, 16,
       arguments=lambda: (np.tile([1, 2], 16).astype(np.int32), np.ones(1, np.int32)))  # fmt: skip
@cuda.jit
def a_product_from_a_plain_read(x, y):
    factor = x[cuda.grid(1)]
    cuda.atomic.exch(y, 0, y[0] * factor)


@right("Only the thread that swapped the owner in writes the element.", 2, 64,
       arguments=lambda: (np.arange(128, dtype=np.int32) % 10, np.full(10, -1, np.int32), counts(10)),
       expected=lambda x, owner, y: np.full(10, 5))  # fmt: skip
@cuda.jit
def the_first_one_writes(x, owner, y):
    i = cuda.grid(1)
    if cuda.atomic.cas(owner, x[i], -1, i) == -1:
        y[x[i]] = 5


@wrong("Whether an element has an owner is asked by a plain read.", 2, 64,
       arguments=lambda: (np.arange(128, dtype=np.int32) % 10, np.full(10, -1, np.int32), counts(10)))  # fmt: skip
@cuda.jit
def asks_for_the_owner_plainly(x, owner, y):
    i = cuda.grid(1)
    if owner[x[i]] == -1:
        cuda.atomic.exch(owner, x[i], i)


@right("A new element points to the head that its compare-and-swap has replaced; nobody reads before the barrier.",
       1, 32, arguments=lambda: (np.full(1, -1, np.int32), counts(32), counts(1)),
       expected=lambda head, following, y: [32])  # fmt: skip
@cuda.jit
def elements_pushed_on_a_stack(head, following, y):
    t = cuda.threadIdx.x
    top = cuda.atomic.add(head, 0, 0)
    while True:
        following[t] = top
        before = cuda.atomic.cas(head, 0, top, t)
        if before == top:
            break
        top = before
    cuda.syncthreads()
    if t == 0:
        length, k = 0, head[0]
        while k >= 0:
            length += 1
            k = following[k]
        y[0] = length


@wrong("An element is popped and pushed again while another thread holds its old successor (ABA).", 1, 8,
       arguments=lambda: (counts(1), np.r_[np.arange(1, 16), -1].astype(np.int32), counts(8)))  # fmt: skip
@cuda.jit
def a_stack_that_pops_and_pushes(head, following, y):
    t = cuda.threadIdx.x
    for _ in range(2):
        top = cuda.atomic.add(head, 0, 0)
        while True:
            before = cuda.atomic.cas(head, 0, top, following[top])
            if before == top:
                break
            top = before
        y[t] += 1
        above = cuda.atomic.add(head, 0, 0)
        while True:
            following[top] = above
            before = cuda.atomic.cas(head, 0, above, top)
            if before == above:
                break
            above = before


@right("The counter is cleared by its last user, whom the atomic tells that all others are done.", 4, 1,
       arguments=lambda: (counts(1), counts(4)), expected=lambda n, y: None)  # fmt: skip
@cuda.jit
def a_counter_that_wraps(number, y):
    y[cuda.atomic.inc(number, 0, cuda.gridDim.x - 1)] = cuda.blockIdx.x + 1


@wrong("Thread 0 clears the counter plainly while others count.", 1, 64, arguments=lambda: (ints(64), counts(1)))
@cuda.jit
def counter_cleared_among_the_atomics(x, y):
    t = cuda.threadIdx.x
    if t == 0:
        y[0] = 0
    if x[t] > 0:
        cuda.atomic.add(y, 0, 1)


@right("The element is claimed by a bit, and the one that set the bit writes.", 2, 32,
       arguments=lambda: (np.arange(64, dtype=np.int32) % 20, counts(1), counts(20)),
       expected=lambda x, bits, y: np.ones(20))  # fmt: skip
@cuda.jit
def visited_by_a_bit(x, bits, y):
    k = x[cuda.grid(1)]
    if cuda.atomic.or_(bits, 0, 1 << k) & 1 << k == 0:
        y[k] = 1


@wrong("Some threads add by an atomic, and one adds plainly.", 1, 64, arguments=lambda: (ints(64), counts(1)))
@cuda.jit
def one_adds_plainly(x, y):
    t = cuda.threadIdx.x
    if t < 63:
        cuda.atomic.add(y, 0, x[t])
    else:
        y[0] += x[t]


@wrong("Two locks are taken in two orders, so two threads can wait for each other.", 2, 1,
       arguments=lambda: (counts(2), counts(1)))  # fmt: skip
@cuda.jit
def two_locks_in_two_orders(locks, y):
    first = cuda.blockIdx.x
    while cuda.atomic.cas(locks, first, 0, 1) != 0:
        pass
    while cuda.atomic.cas(locks, 1 - first, 0, 1) != 0:
        pass
    cuda.threadfence()
    y[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(locks, 1 - first, 0)
    cuda.atomic.exch(locks, first, 0)


@right("Two locks are taken in one order by all.", 2, 1, arguments=lambda: (counts(2), counts(1)),
       expected=lambda locks, y: [2])  # fmt: skip
@cuda.jit
def two_locks_in_one_order(locks, y):
    for k in range(2):
        while cuda.atomic.cas(locks, k, 0, 1) != 0:
            pass
    cuda.threadfence()
    y[0] += 1
    cuda.threadfence()
    for k in range(2):
        cuda.atomic.exch(locks, 1 - k, 0)


@wrong("A thread waits for a flag by plain reads, which the compiler may do once.", 2, 1,
       arguments=lambda: (counts(1), counts(1)), patience=0.2)  # fmt: skip
@cuda.jit
def waits_by_plain_reads(flag, y):
    if cuda.blockIdx.x == 0:
        while flag[0] == 0:
            pass
        y[0] = 1
    else:
        cuda.atomic.exch(flag, 0, 1)


@wrong("One path leaves the kernel with the lock.", 2, 2, arguments=lambda: (counts(1), ints(4), counts(1)))
@cuda.jit
def returns_with_the_lock(lock, x, y):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    if x[cuda.grid(1)] < 0:
        return
    y[0] += x[cuda.grid(1)]
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


@right(
    "Lanes with the same key are found by a warp operation, and one of them adds for all.",
    2,
    32,
    arguments=lambda: (np.arange(64, dtype=np.int32) % 6, counts(6)),
    expected=lambda x, y: np.bincount(x),
)
@cuda.jit
def one_lane_adds_for_its_equals(x, y):
    key = x[cuda.grid(1)]
    equals = cuda.match_any_sync(0xFFFFFFFF, key)
    if cuda.ffs(equals) - 1 == cuda.laneid:
        cuda.atomic.add(y, key, cuda.popc(equals))


@right("Atomics change a float array; plain reads of another array stand beside them.", 2, 32,
       arguments=lambda: (floats(64), zeros(1)), expected=lambda x, y: [x.max()])  # fmt: skip
@cuda.jit
def the_greatest_by_an_atomic(x, y):
    value = x[cuda.grid(1)] * float32(1)
    if value > x[0]:
        cuda.atomic.max(y, 0, value)
