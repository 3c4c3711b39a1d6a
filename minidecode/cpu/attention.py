"""What grouped.py, split.py and shared.py are made of: a memory is read once for four queries, or positions, at once.

For a few rows and many positions BLAS first copies keys and values into an order of its own, which takes longer than
the product itself: at the papers' sizes this is twice as fast as the reference. Below about 400 positions OpenBLAS does
not copy either, and the reference is as fast or faster.

A memory of float16 is read as it is, and each number widened in a register.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numba import njit

from ..reference.attention import heads_side_by_side
from ..reference.softmax import softmax
from .narrow import in_bits, wide

REORDER = {"reassoc", "contract"}  # sums in any order, so that they run on vectors


def attend_parts(q_RHK, parts, scale, out):
    """One softmax over all parts (k_XGMK, v_XGMU, begin_X, end_X): X memories, each of which serves R/X rows."""
    R, H, _ = q_RHK.shape
    U, dtype = parts[0][1].shape[3], q_RHK.dtype
    first_X = [0, *accumulate(int(end_X.max()) for *_, end_X in parts)]  # where each part's scores begin, and end
    scores_RHM, a_RHU = np.full((R, H, first_X[-1]), -np.inf, dtype), np.zeros((R, H, U), dtype)
    q_RHK = np.ascontiguousarray(q_RHK)  # as compiled for
    for first, (k_XGMK, _, begin_X, end_X) in zip(first_X, parts, strict=False):
        _scores_of_part(q_RHK, in_bits(k_XGMK), begin_X, end_X, dtype.type(scale), first, scores_RHM)
    softmax(scores_RHM)  # in NumPy, whose exponentials run on vectors
    for first, (_, v_XGMU, begin_X, end_X) in zip(first_X, parts, strict=False):
        _sums_of_part(scores_RHM, in_bits(v_XGMU), begin_X, end_X, first, a_RHU)
    return heads_side_by_side(a_RHU, out)


@njit(cache=True, fastmath=REORDER)
def _scores_of_part(q_RHK, k_XGMK, begin_X, end_X, scale, first, scores_RHM):
    X, G, _, K = k_XGMK.shape
    W, P = len(q_RHK) // X, q_RHK.shape[1] // G  # rows of a memory, query heads of a group
    fours = W * P // 4 * 4
    q_XK = np.empty((W * P, K), q_RHK.dtype)
    for x in range(X):
        scores_XM = np.empty((W * P, end_X[x] - begin_X[x]), q_RHK.dtype)
        for g in range(G):
            k_MK = k_XGMK[x, g, begin_X[x] : end_X[x]]
            for i in range(W * P):  # all queries of these keys, side by side
                for j in range(K):
                    q_XK[i, j] = q_RHK[x * W + i // P, g * P + i % P, j]
            for i in range(0, fours, 4):
                _four_dots(q_XK[i : i + 4], k_MK, scale, scores_XM[i : i + 4])
            for i in range(fours, W * P):
                _dots(q_XK[i], k_MK, scale, scores_XM[i])
            for i in range(W * P):
                for m in range(len(k_MK)):
                    scores_RHM[x * W + i // P, g * P + i % P, first + begin_X[x] + m] = scores_XM[i, m]


@njit(cache=True, fastmath=REORDER)
def _four_dots(q_XK, k_MK, scale, scores_XM):
    M, K = k_MK.shape
    for m in range(M):
        a = b = c = d = q_XK.dtype.type(0)
        for j in range(K):
            key = wide(k_MK[m, j])
            a += q_XK[0, j] * key
            b += q_XK[1, j] * key
            c += q_XK[2, j] * key
            d += q_XK[3, j] * key
        scores_XM[0, m], scores_XM[1, m], scores_XM[2, m], scores_XM[3, m] = scale * a, scale * b, scale * c, scale * d


@njit(cache=True, fastmath=REORDER)
def _dots(q_K, k_MK, scale, scores_M):
    M, K = k_MK.shape
    for m in range(M):
        total = q_K.dtype.type(0)
        for j in range(K):
            total += q_K[j] * wide(k_MK[m, j])
        scores_M[m] = scale * total


@njit(cache=True, fastmath=REORDER)
def _sums_of_part(weights_RHM, v_XGMU, begin_X, end_X, first, a_RHU):
    X, G, _, U = v_XGMU.shape
    W, P = len(weights_RHM) // X, weights_RHM.shape[1] // G
    for x in range(X):
        for g in range(G):
            v_MU, M = v_XGMU[x, g, begin_X[x] : end_X[x]], end_X[x] - begin_X[x]
            fours = M // 4 * 4
            for m in range(0, fours, 4):
                for i in range(W * P):
                    weights_M = weights_RHM[x * W + i // P, g * P + i % P, first + begin_X[x] :]
                    a, b, c, d = weights_M[m], weights_M[m + 1], weights_M[m + 2], weights_M[m + 3]
                    a_U = a_RHU[x * W + i // P, g * P + i % P]
                    for u in range(U):
                        v0, v1 = wide(v_MU[m, u]), wide(v_MU[m + 1, u])
                        v2, v3 = wide(v_MU[m + 2, u]), wide(v_MU[m + 3, u])
                        a_U[u] += a * v0 + b * v1 + c * v2 + d * v3
            for m in range(fours, M):
                for i in range(W * P):
                    weight = weights_RHM[x * W + i // P, g * P + i % P, first + begin_X[x] + m]
                    for u in range(U):
                        a_RHU[x * W + i // P, g * P + i % P, u] += weight * wide(v_MU[m, u])
