"""Which of two scored columns goes first, and the thresholds that a block's best scores reach."""

from __future__ import annotations

from numba import cuda

from .reduction import LANES, THREADS, WARPS

FEW_GROUPS = 32  # of a block's threads, in version 4


@cuda.jit(device=True)
def goes_first(score, x, other, y):
    """Whether `score` in column x goes before `other` in column y. NaN goes before nothing."""
    return score > other or (score == other and x < y)


@cuda.jit(device=True)
def is_before(score, x, other, y):
    """Whether `score` in column x goes before `other` in column y, by comparisons alone: a branch takes longer."""
    return (score > other) | ((score == other) & (x < y))


@cuda.jit(device=True)
def first_of_warp(score, x):
    """The pair that goes first of those of all lanes, for every lane."""
    for step in (16, 8, 4, 2, 1):
        other = cuda.shfl_xor_sync(LANES, score, step)
        y = cuda.shfl_xor_sync(LANES, x, step)
        if goes_first(other, y, score, x):
            score, x = other, y
    return score, x


@cuda.jit(device=True)
def first_of_block(score, x, part, place):
    """The pair that goes first of those of all threads, for every thread; `part`, `place`: a place for each warp."""
    score, x = first_of_warp(score, x)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        part[t // 32], place[t // 32] = score, x
    cuda.syncthreads()
    for warp in range(WARPS):
        if goes_first(part[warp], place[warp], score, x):
            score, x = part[warp], place[warp]
    cuda.syncthreads()  # everybody has read them before the next pass writes
    return score, x


@cuda.jit(device=True)
def least_maximum_of_groups(largest, mine, C):
    """The least of the maxima of C groups of threads, for every thread; `largest` has a place for each."""
    t = cuda.threadIdx.x
    largest[t] = mine
    cuda.syncthreads()
    if t < C:
        for other in range(t + C, THREADS, C):
            if largest[other] > largest[t]:
                largest[t] = largest[other]
    cuda.syncthreads()
    least = largest[0]
    for group in range(1, C):
        if largest[group] < least:
            least = largest[group]
    return least


@cuda.jit(device=True)
def kth_largest_of_block(largest, mine, k):
    """The k-th largest of what the threads bring, for every thread: the one that k-1 others go before."""
    t = cuda.threadIdx.x
    largest[t] = mine
    cuda.syncthreads()
    before = 0
    for other in range(THREADS):
        if goes_first(largest[other], other, mine, t):
            before += 1
    cuda.syncthreads()  # everybody has compared before the first place is used again
    if before == k - 1:
        largest[0] = mine
    cuda.syncthreads()
    return largest[0]


@cuda.jit(device=True)
def threshold_of_block(largest, mine, C):
    """What at least C of the numbers reach whose maxima the threads bring: the C-th largest maximum of groups of them.

    Few candidates need no more than 32 groups: of random numbers 9.2 reach the eighth of 32
    maxima, and 8.3 the eighth of 128, which take sixteen times as many comparisons.
    """
    t, is_few = cuda.threadIdx.x, C <= FEW_GROUPS // 2
    groups = FEW_GROUPS if is_few else THREADS
    largest[t] = mine
    cuda.syncthreads()
    if t < groups:
        for other in range(t + groups, cuda.blockDim.x, groups):
            mine = max(mine, largest[other])
        largest[t] = mine
    cuda.syncthreads()
    before = 0
    if t < groups:
        before = (
            count_maxima_before(largest, FEW_GROUPS, mine, t)
            if is_few
            else count_maxima_before(largest, THREADS, mine, t)
        )
    cuda.syncthreads()  # everybody has compared before the first place is used again
    if t < groups and before == C - 1:
        largest[0] = mine
    cuda.syncthreads()
    return largest[0]


@cuda.jit(device=True)
def count_maxima_before(largest, groups, mine, t):
    """How many maxima go before that of group t. The number of groups is a constant, so that the loop is unrolled."""
    before = 0
    for other in range(groups):
        before += is_before(largest[other], other, mine, t)
    return before
