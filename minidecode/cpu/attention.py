"""What split.py and shared.py are made of: a memory is read once for up to four queries, or four positions at once.

For a few rows and many positions BLAS first copies keys and values into an order of its own, which takes longer than
the product itself: at the papers' sizes this is twice as fast as the reference. Below about 400 positions OpenBLAS does
not copy either, and the reference is as fast or faster.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..reference.attention import heads_side_by_side
from ..reference.softmax import softmax

REORDER = {"reassoc", "contract"}  # sums in any order, so that they run on vectors


def attend_parts(q_RHK, parts, scale, out):
    """One softmax over all parts (k_XGMK, v_XGMU, begin_X, end_X): X memories, each of which serves R/X rows."""
    R, H, _ = q_RHK.shape
    M, U, dtype = sum(k_XGMK.shape[2] for k_XGMK, *_ in parts), parts[0][1].shape[3], q_RHK.dtype
    scores_RHM, a_RHU = np.full((R, H, M), -np.inf, dtype), np.zeros((R, H, U), dtype)
    columns = np.cumsum([0, *(k_XGMK.shape[2] for k_XGMK, *_ in parts)])
    for first, (k_XGMK, _, begin_X, end_X) in zip(columns, parts, strict=False):
        _scores_of_part(q_RHK, k_XGMK, begin_X, end_X, dtype.type(scale), scores_RHM[:, :, first:])
    softmax(scores_RHM)  # in NumPy, whose exponentials run on vectors
    for first, (_, v_XGMU, begin_X, end_X) in zip(columns, parts, strict=False):
        _sums_of_part(scores_RHM[:, :, first:], v_XGMU, begin_X, end_X, a_RHU)
    return heads_side_by_side(a_RHU, out)


@njit(cache=True, fastmath=REORDER)
def _scores_of_part(q_RHK, k_XGMK, begin_X, end_X, scale, scores_RHM):
    (X, G, _, K), (R, H, _) = k_XGMK.shape, q_RHK.shape
    W, P = R // X, H // G  # rows of a memory, query heads of a group
    for x in range(X):
        for g in range(G):
            rows, heads, seen = slice(x * W, (x + 1) * W), slice(g * P, (g + 1) * P), slice(begin_X[x], end_X[x])
            k_MK = k_XGMK[x, g, seen]
            q_XK = np.ascontiguousarray(q_RHK[rows, heads]).reshape(W * P, K)  # all queries of these keys
            scores_XM = np.empty((W * P, len(k_MK)), q_RHK.dtype)
            fours = W * P // 4 * 4
            for i in range(0, fours, 4):
                _four_dots(q_XK[i : i + 4], k_MK, scale, scores_XM[i : i + 4])
            for i in range(fours, W * P):
                _dots(q_XK[i], k_MK, scale, scores_XM[i])
            scores_RHM[rows, heads, seen] = scores_XM.reshape(W, P, len(k_MK))


@njit(cache=True, fastmath=REORDER)
def _four_dots(q_XK, k_MK, scale, scores_XM):
    M, K = k_MK.shape
    for m in range(M):
        a = b = c = d = k_MK.dtype.type(0)
        for j in range(K):
            key = k_MK[m, j]
            a += q_XK[0, j] * key
            b += q_XK[1, j] * key
            c += q_XK[2, j] * key
            d += q_XK[3, j] * key
        scores_XM[0, m], scores_XM[1, m], scores_XM[2, m], scores_XM[3, m] = scale * a, scale * b, scale * c, scale * d


@njit(cache=True, fastmath=REORDER)
def _dots(q_K, k_MK, scale, scores_M):
    M, K = k_MK.shape
    for m in range(M):
        total = k_MK.dtype.type(0)
        for j in range(K):
            total += q_K[j] * k_MK[m, j]
        scores_M[m] = scale * total


@njit(cache=True, fastmath=REORDER)
def _sums_of_part(weights_RHM, v_XGMU, begin_X, end_X, a_RHU):
    (X, G, _, U), (R, H, _) = v_XGMU.shape, weights_RHM.shape
    W, P = R // X, H // G
    for x in range(X):
        for g in range(G):
            rows, heads, seen = slice(x * W, (x + 1) * W), slice(g * P, (g + 1) * P), slice(begin_X[x], end_X[x])
            v_MU = v_XGMU[x, g, seen]
            M = len(v_MU)
            weights_XM = np.ascontiguousarray(weights_RHM[rows, heads, seen]).reshape(W * P, M)
            a_XU = np.zeros((W * P, U), v_MU.dtype)
            fours = M // 4 * 4
            for m in range(0, fours, 4):
                for i in range(W * P):
                    a, b, c, d = weights_XM[i, m], weights_XM[i, m + 1], weights_XM[i, m + 2], weights_XM[i, m + 3]
                    for u in range(U):
                        a_XU[i, u] += a * v_MU[m, u] + b * v_MU[m + 1, u] + c * v_MU[m + 2, u] + d * v_MU[m + 3, u]
            for m in range(fours, M):
                for i in range(W * P):
                    for u in range(U):
                        a_XU[i, u] += weights_XM[i, m] * v_MU[m, u]
            a_RHU[rows, heads] += a_XU.reshape(W, P, U)
