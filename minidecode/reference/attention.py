"""Cutting into heads, and attention over the prompt and over a memory."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .softmax import softmax


def split_heads(qkv_RX, bias_X, heads, out=None):
    """Views of one biased array: no head is copied."""
    H, G, K, U = heads.H, heads.G, heads.K, heads.U
    qkv_RX = qkv_RX if bias_X is None else qkv_RX + bias_X
    R = len(qkv_RX)
    q_RHK = qkv_RX[:, : H * K].reshape(R, H, K)
    k_RGK = qkv_RX[:, H * K : (H + G) * K].reshape(R, G, K)
    v_RGU = qkv_RX[:, (H + G) * K :].reshape(R, G, U)
    if out is None:
        return q_RHK, k_RGK, v_RGU
    for target, part in zip(out, (q_RHK, k_RGK, v_RGU), strict=True):
        target[...] = part
    return out


def attend_within(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    """Sentence by sentence: its queries against its keys; if causal, only a band below the diagonal is seen."""
    R, H, K = q_RHK.shape
    G, U = v_XGU.shape[1:]
    a_RHU = np.empty((R, H, U), q_RHK.dtype) if out is None else out.reshape(R, H, U)
    for (q_first, q_last), (k_first, k_last) in zip(pairwise(q_offsets_X), pairwise(k_offsets_X), strict=True):
        N, M = q_last - q_first, k_last - k_first
        q_GXK = q_RHK[q_first:q_last].transpose(1, 0, 2).reshape(G, -1, K)  # the H/G query heads of a group, stacked
        k_GKM = k_XGK[k_first:k_last].transpose(1, 2, 0)
        v_GMU = v_XGU[k_first:k_last].transpose(1, 0, 2)
        scores_HNM = (q_GXK @ k_GKM).reshape(H, N, M)
        scores_HNM *= scale
        if causal:
            back_NM = np.arange(N)[:, None] - np.arange(M)  # how far back a query looks
            scores_HNM[:, (back_NM < 0) | (back_NM >= (window or N))] = -np.inf
        weights_GXM = softmax(scores_HNM).reshape(G, -1, M)
        a_RHU[q_first:q_last] = (weights_GXM @ v_GMU).reshape(H, N, U).transpose(1, 0, 2)
    return a_RHU.reshape(R, H * U)


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, scale, out=None):
    """All rows at once: each is a small product with its own memory."""
    R, H, K = q_RHK.shape
    G, M, U = v_RGMU.shape[1:]
    q_RGXK = q_RHK.reshape(R, G, H // G, K)
    scores_RGXM = q_RGXK @ k_RGMK.transpose(0, 1, 3, 2)
    scores_RGXM *= scale
    padding_RM = np.arange(M) < begin_R[:, None]
    scores_RGXM[np.broadcast_to(padding_RM[:, None, None, :], scores_RGXM.shape)] = -np.inf
    a_RGXU = softmax(scores_RGXM) @ v_RGMU
    if out is None:
        return a_RGXU.reshape(R, H * U)
    out[...] = a_RGXU.reshape(R, H * U)
    return out
