"""Cutting into heads, attention over the prompt, and what attention over every kind of memory is made of."""

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


# Scores and sums, with the H/G query heads of a key/value head (X) as rows of one product. Where memory is by row, each
# row is a product of its own; where it is by sentence, the rows of its beams join in.


def scores_of_rows(q_RHK, k_RGMK, scale):
    R, H, K = q_RHK.shape
    G, M = k_RGMK.shape[1:3]
    scores_RGXM = q_RHK.reshape(R, G, H // G, K) @ k_RGMK.transpose(0, 1, 3, 2)
    scores_RGXM *= scale
    return scores_RGXM.reshape(R, H, M)


def sums_of_rows(weights_RHM, v_RGMU):
    R, H, M = weights_RHM.shape
    G, U = v_RGMU.shape[1], v_RGMU.shape[3]
    return (weights_RHM.reshape(R, G, H // G, M) @ v_RGMU).reshape(R, H, U)


def scores_of_sentences(q_RHK, k_BGNK, scale):
    R, H, K = q_RHK.shape
    B, G, N, _ = k_BGNK.shape
    q_BGXK = q_RHK.reshape(B, R // B, G, H // G, K).transpose(0, 2, 1, 3, 4).reshape(B, G, R // B * (H // G), K)
    scores_BGXN = q_BGXK @ k_BGNK.transpose(0, 1, 3, 2)
    scores_BGXN *= scale
    return scores_BGXN.reshape(B, G, R // B, H // G, N).transpose(0, 2, 1, 3, 4).reshape(R, H, N)


def sums_of_sentences(weights_RHN, v_BGNU):
    R, H, N = weights_RHN.shape
    B, G, _, U = v_BGNU.shape
    weights_BGXN = weights_RHN.reshape(B, R // B, G, H // G, N).transpose(0, 2, 1, 3, 4)
    weights_BGXN = weights_BGXN.reshape(B, G, R // B * (H // G), N)  # -1 would not do where N is 0
    a_BGXU = weights_BGXN @ v_BGNU
    return a_BGXU.reshape(B, G, R // B, H // G, U).transpose(0, 2, 1, 3, 4).reshape(R, H, U)


def mask(scores_RHM, begin_R, end_R) -> None:
    """-inf for the positions outside of begin <= m < end, if there are any."""
    M = scores_RHM.shape[2]
    if begin_R.any() or (end_R < M).any():
        place_M = np.arange(M)
        outside_RM = (place_M < begin_R[:, None]) | (place_M >= end_R[:, None])
        scores_RHM[np.broadcast_to(outside_RM[:, None], scores_RHM.shape)] = -np.inf


def heads_side_by_side(a_RHU, out):
    a_RX = a_RHU.reshape(len(a_RHU), -1)
    if out is None:
        return a_RX
    out[...] = a_RX
    return out
