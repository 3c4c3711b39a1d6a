"""Online softmax: one query against positions in one pass. Parts of the kernels of indirect.py and rolling.py.

A softmax needs the largest score before the first exponential. Online softmax (Milakov and Gimelshein 2018) reads
positions one by one and keeps running_max, the largest score so far; running_sum, the sum of exp(score - running_max);
and for each column u the sum of exp(score - running_max) v[u]. A larger score scales all of them by
exp(old maximum - new maximum).

Each warp of a block has positions of its own and finds by itself: its lanes share the numbers of a key and of a value,
neighbouring lanes neighbouring numbers. In the end, after the only barrier, what the warps have found is put together.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32

from .reduction import THREADS, WARPS, warp_sum

WIDEST = 256  # numbers of a head that fit into shared memory
MINUS_INF = float32(-np.inf)  # the maximum before the first position


@cuda.jit(device=True)
def stage_query(q_K, query, sums_WK):
    """The query into shared memory, which is read once for each position; each warp's sums start at 0."""
    t, warp, lane = cuda.threadIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    for d in range(t, q_K.size, THREADS):
        query[d] = q_K[d]
    for u in range(lane, WIDEST, 32):
        sums_WK[warp, u] = float32(0)
    cuda.syncthreads()


@cuda.jit(device=True)
def take_in_position(query, k_K, v_U, scale, bias, running_max, running_sum, sums_U):
    """One position more, by one warp, whose sums are sums_U: (running_max, running_sum) with it.

    bias: what is added to its score.

    Loops by `while`: of a `range` the compiler unrolls some rounds, and that takes half as many registers again.
    """
    lane = cuda.threadIdx.x % 32
    products = float32(0)
    d = lane
    while d < k_K.size:
        products += query[d] * float32(k_K[d])
        d += 32
    score = scale * warp_sum(products) + bias
    higher = max(running_max, score)
    shrink, weight = math.exp(running_max - higher), math.exp(score - higher)
    u = lane
    while u < v_U.size:
        sums_U[u] = shrink * sums_U[u] + weight * float32(v_U[u])
        u += 32
    return higher, shrink * running_sum + weight


@cuda.jit(device=True)
def merge_warps(running_max, running_sum, sums_WK, a_U):
    """What all warps have found, as if they were one; a warp without a position has the maximum -inf and counts 0."""
    maxima = cuda.shared.array(WARPS, float32)
    sums = cuda.shared.array(WARPS, float32)
    t = cuda.threadIdx.x
    if t % 32 == 0:
        maxima[t // 32] = running_max
        sums[t // 32] = running_sum
    cuda.syncthreads()  # every warp is done
    highest, whole = MINUS_INF, float32(0)
    for warp in range(WARPS):
        highest = max(highest, maxima[warp])
    for warp in range(WARPS):
        whole += math.exp(maxima[warp] - highest) * sums[warp]
    for u in range(t, a_U.size, THREADS):
        a = float32(0)
        for warp in range(WARPS):
            a += math.exp(maxima[warp] - highest) * sums_WK[warp, u]
        a_U[u] = a / whole
