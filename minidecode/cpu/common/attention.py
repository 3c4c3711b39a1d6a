"""One key/value head for a few queries: products with keys, and sums of values. Parts of split.py and paged.py."""

from __future__ import annotations

from .atomics import fetch
from .jit import REORDER, njit
from .low_precision import f32

WORTH_WORKERS = 2**16  # numbers of keys and values, times the queries that they meet: some 20 us of reading
PREFETCH_KEYS = 24  # this many keys before one is read, it is fetched


@njit(cache=True, nogil=True)
def scores_of(q_XK, k_MK, v_MU, scores_XM):
    """Each query's product with each key, in the first columns of scores. Keys to come and values are fetched."""
    fours = len(q_XK) // 4 * 4
    for x in range(0, fours, 4):
        _four_dots(q_XK[x : x + 4], k_MK, v_MU, scores_XM[x : x + 4])
    for x in range(fours, len(q_XK)):
        _dots(q_XK[x], k_MK, v_MU, scores_XM[x])


@njit(inline="always")
def _fetch_positions(k_MK, v_MU, m):
    """Prefetches the values of position m, and the key PREFETCH_KEYS positions ahead."""
    key = min(m + PREFETCH_KEYS, len(k_MK) - 1)
    fetch(k_MK.ctypes.data + key * k_MK.strides[0], k_MK.shape[1] * k_MK.itemsize)
    fetch(v_MU.ctypes.data + m * v_MU.strides[0], v_MU.shape[1] * v_MU.itemsize)


@njit(cache=True, nogil=True, fastmath=REORDER)
def _four_dots(q_XK, k_MK, v_MU, scores_XM):
    M, K = k_MK.shape
    for m in range(M):
        _fetch_positions(k_MK, v_MU, m)
        a = b = c = d = q_XK.dtype.type(0)
        for j in range(K):
            key = f32(k_MK[m, j])
            a += q_XK[0, j] * key
            b += q_XK[1, j] * key
            c += q_XK[2, j] * key
            d += q_XK[3, j] * key
        scores_XM[0, m], scores_XM[1, m], scores_XM[2, m], scores_XM[3, m] = a, b, c, d


@njit(cache=True, nogil=True, fastmath=REORDER)
def _dots(q_K, k_MK, v_MU, scores_M):
    M, K = k_MK.shape
    for m in range(M):
        _fetch_positions(k_MK, v_MU, m)
        total = q_K.dtype.type(0)
        for j in range(K):
            total += q_K[j] * f32(k_MK[m, j])
        scores_M[m] = total


@njit(cache=True, nogil=True, fastmath=REORDER)
def add_sums(weights_XM, v_MU, a_XU):
    """Adds each query's sum of the values, by its weights in the first columns; four positions at once."""
    M, U = v_MU.shape
    fours = M // 4 * 4
    for m in range(0, fours, 4):
        for x in range(len(a_XU)):
            a, b, c, d = weights_XM[x, m], weights_XM[x, m + 1], weights_XM[x, m + 2], weights_XM[x, m + 3]
            a_U = a_XU[x]
            for u in range(U):
                v0, v1, v2, v3 = f32(v_MU[m, u]), f32(v_MU[m + 1, u]), f32(v_MU[m + 2, u]), f32(v_MU[m + 3, u])
                a_U[u] += a * v0 + b * v1 + c * v2 + d * v3
    for m in range(fours, M):
        for x in range(len(a_XU)):
            for u in range(U):
                a_XU[x, u] += weights_XM[x, m] * f32(v_MU[m, u])
