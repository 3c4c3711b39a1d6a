"""Attention inside each sentence: the products by BLAS, and one compiled pass from scores to weights."""

from __future__ import annotations

from numba import njit

from ..reference import within as reference
from .softmax import softmax_in_place


def attend_within(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    """NumPy goes six times over all scores, those that nobody sees included; here a row stays in the cache."""
    return reference.attend_within(
        q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, out, to_weights=to_weights
    )


def to_weights(scores_HNM, scale, causal, window):
    """Products of queries and keys -> the weights of the positions seen, in their place."""
    _to_weights(scores_HNM, scores_HNM.dtype.type(scale), causal, window or scores_HNM.shape[1])


@njit(cache=True, nogil=True)
def _to_weights(scores_HNM, scale, causal, window):
    """window: how many positions a row sees, if causal."""
    H, N, M = scores_HNM.shape
    for h in range(H):
        for n in range(N):
            first, last = (max(0, n + 1 - window), n + 1) if causal else (0, M)
            scores_HNM[h, n, :first] = 0
            scores_HNM[h, n, last:] = 0
            _multiply(scores_HNM[h, n, first:last], scale)
            softmax_in_place(scores_HNM[h, n, first:last])


@njit(cache=True, nogil=True)
def _multiply(scores_M, scale):
    for m in range(len(scores_M)):
        scores_M[m] *= scale
