"""Attention inside each sentence: the products by BLAS, and one compiled pass from scores to weights."""

from __future__ import annotations

import numpy as np

from ..reference.prefill import add_bias_of_distances, sentences
from .common.jit import njit
from .softmax import softmax_in_place

QUERIES = 32  # in a block; with 64 numbers a head and up to 128 keys its products are small enough for one BLAS thread


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """If causal, a block of queries meets the keys that one of them sees, which are little more than half of all.

    NumPy goes six times over all scores; here a row stays in the cache. And where the BLAS would share small products
    among threads, which wait for each other whenever other work has a core, it makes a block's in one.
    """
    (R, H, _), U = q_RHK.shape, v_XGU.shape[2]
    a_RHU = np.empty((R, H, U), q_RHK.dtype) if out is None else out.reshape(R, H, U)
    for q_rows, k_rows in sentences(q_offsets_X, k_offsets_X):
        q_NHK, k_MGK, v_MGU, a_NHU = q_RHK[q_rows], k_XGK[k_rows], v_XGU[k_rows], a_RHU[q_rows]
        bias_of_rows = bias and bias.of_rows(q_rows)
        if not causal:
            _attend(q_NHK, k_MGK, v_MGU, scale, None, 0, bias_of_rows, a_NHU)
            continue
        N = len(q_NHK)
        for first in range(0, N, QUERIES):
            mine, begin = slice(first, min(first + QUERIES, N)), max(0, first + 1 - (window or N))
            seen = slice(begin, mine.stop)
            mine_of_bias = bias_of_rows and bias_of_rows.of_rows(mine)
            _attend(
                q_NHK[mine], k_MGK[seen], v_MGU[seen], scale, window or N, first - begin, mine_of_bias, a_NHU[mine]
            )  # fmt: skip
    return a_RHU.reshape(R, H * U)


def _attend(q_NHK, k_MGK, v_MGU, scale, window, ahead, bias, a_NHU):
    """softmax(scale q k^T + bias) v of all heads, into a_NHU.

    window: None if every query sees all keys; else query n sees as many, the last of which is key ahead + n.
    """
    (N, H, K), (M, G, U) = q_NHK.shape, v_MGU.shape
    q_GXK = q_NHK.transpose(1, 0, 2).reshape(G, -1, K)  # the H/G query heads of a group, stacked
    scores_GXM = q_GXK @ k_MGK.transpose(1, 2, 0)
    if bias is not None:
        scores_GXM *= scale
        add_bias_of_distances(scores_GXM.reshape(H, N, M), bias, ahead)
        scale = 1.0
    _to_weights(scores_GXM.reshape(H, N, M), scores_GXM.dtype.type(scale), window is not None, window or 0, ahead)
    a_NHU[:] = (scores_GXM @ v_MGU.transpose(1, 0, 2)).reshape(H, N, U).transpose(1, 0, 2)


@njit(cache=True, nogil=True)
def _to_weights(scores_HNM, scale, causal, window, ahead):
    """Products of queries and keys -> the weights of the positions seen, in their place; `_attend` has the window."""
    H, N, M = scores_HNM.shape
    for h in range(H):
        for n in range(N):
            first, last = (max(0, ahead + n + 1 - window), ahead + n + 1) if causal else (0, M)
            scores_HNM[h, n, :first] = 0
            scores_HNM[h, n, last:] = 0
            _multiply(scores_HNM[h, n, first:last], scale)
            softmax_in_place(scores_HNM[h, n, first:last])


@njit(cache=True, nogil=True)
def _multiply(scores_M, scale):
    for m in range(len(scores_M)):
        scores_M[m] *= scale
