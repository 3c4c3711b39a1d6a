"""Attention over a prompt that the beams of a sentence share, and over what each has generated (FastSeq, 4.1.1)."""

from __future__ import annotations

import numpy as np

from . import scratch
from .common.attention import (
    add_position_bias,
    distances_back,
    join_heads,
    mask_scores,
    scores_of_rows,
    scores_of_sentences,
    sums_of_rows,
    sums_of_sentences,
)
from .common.softmax import softmax


def attend_split_naive(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None
):
    """The cache that FastSeq found: the prompt copied for every beam, and what each has generated behind it."""
    R, B, N = len(q_RHK), len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    sentence_R = np.arange(R) // (R // B)
    a_RX = np.empty_like(q_RHK, shape=(R, q_RHK.shape[1] * v_RGTU.shape[3])) if out is None else out
    for r, b in enumerate(sentence_R):  # the two parts of a row need not touch: what lies between is masked
        generated, begin = slice(0, end_R[r]), prompt_begin_B[b]
        k_GMK = np.concatenate([prompt_k_BGNK[b], k_RGTK[r, :, generated]], axis=1)
        v_GMU = np.concatenate([prompt_v_BGNU[b], v_RGTU[r, :, generated]], axis=1)
        M = k_GMK.shape[1]
        scores_1HM = scores_of_rows(q_RHK[r : r + 1], k_GMK[None], scale)
        if bias is not None:
            add_position_bias(scores_1HM, bias.of_rows(slice(r, r + 1)), distances_back(np.full(1, M), M))
        scores_1HM[:, :, :begin], scores_1HM[:, :, N : N + begin_R[r]] = -np.inf, -np.inf
        a_RX[r] = sums_of_rows(softmax(scores_1HM), v_GMU[None]).reshape(-1)
    return a_RX


def attend_split(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, bias=None, out=None, *,
    workspace=None,
):  # fmt: skip
    """Equation 3: two partial scores side by side, one softmax, split again, two partial sums, added."""
    B, N = len(prompt_k_BGNK), prompt_k_BGNK.shape[2]
    R, T = len(q_RHK), int(end_R.max())
    prompt_scores_RHN = scores_of_sentences(q_RHK, prompt_k_BGNK, scale, workspace)
    scores_RHT = scores_of_rows(q_RHK, k_RGTK[:, :, :T], scale, workspace)
    mask_scores(prompt_scores_RHN, np.repeat(prompt_begin_B, R // B), np.full(R, N))
    mask_scores(scores_RHT, begin_R, end_R)
    scores_RHM = scratch(workspace, (R, q_RHK.shape[1], N + T), q_RHK)
    np.concatenate([prompt_scores_RHN, scores_RHT], axis=2, out=scores_RHM)
    if bias is not None:
        add_position_bias(scores_RHM, bias, distances_back(end_R + N, N + T, workspace), workspace)
    weights_RHM = softmax(scores_RHM, workspace)
    prompt_weights_RHN, weights_RHT = weights_RHM[:, :, :N], weights_RHM[:, :, N:]
    a_RHU = sums_of_sentences(prompt_weights_RHN, prompt_v_BGNU, workspace)
    a_RHU += sums_of_rows(weights_RHT, v_RGTU[:, :, :T], workspace)
    return join_heads(a_RHU, out)


def attend_split_merged(
    q_RHK,
    prompt_k_BGNK,
    prompt_v_BGNU,
    prompt_begin_B,
    k_RGTK,
    v_RGTU,
    begin_R,
    end_R,
    scale,
    bias=None,
    out=None,
    *,
    piece=256,
):
    """A softmax of its own for each piece of the cache, put together afterwards (as flash-decoding does).

    So no piece waits for another, and a long cache is cut into as many as there are hands to look at them. One pair of
    hands gains too where its BLAS is quick with small products: OpenBLAS copies keys and values first from about 400
    positions on.
    """
    N = prompt_k_BGNK.shape[2]
    prompt_end_B = np.full(len(prompt_k_BGNK), N)
    prompt = partials_of_pieces(
        q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B, scale, piece, bias, end_R + N
    )
    generated = partials_of_pieces(q_RHK, k_RGTK, v_RGTU, begin_R, end_R, scale, piece, bias, end_R)
    return join_heads(merge_partials([*prompt, *generated]), out)


def partials_of_pieces(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, piece, bias=None, end_R=None):
    """`partial_attention` of each piece of a cache, one after the other."""
    M = int(end_X.max())
    for first in range(0, M, piece):
        here = np.s_[:, :, first : min(first + piece, M)]
        from_R = None if bias is None else end_R - first
        yield partial_attention(q_RHK, k_XGMK[here], v_XGMU[here], begin_X - first, end_X - first, scale, bias, from_R)


def partial_attention(q_RHK, k_XGMK, v_XGMU, begin_X, end_X, scale, bias=None, end_R=None):
    """(sum_RHU, top_RH, total_RH): what a piece of a cache of M positions gives by itself. Each of X serves R/X rows.

    sum = sum_m exp(score_m - top) v_m, total = sum_m exp(score_m - top), and top is the largest score. Where a row sees
    nothing of this piece, top is -inf, and the sums are 0. With a position bias, end[r] - 1 is the row's own position.
    """
    W = len(q_RHK) // len(k_XGMK)
    scores_RHM = scores_of_sentences(q_RHK, k_XGMK, scale)
    if bias is not None:
        add_position_bias(scores_RHM, bias, distances_back(end_R, scores_RHM.shape[2]))
    mask_scores(scores_RHM, np.repeat(begin_X, W), np.repeat(end_X, W))
    top_RH = scores_RHM.max(axis=2, initial=-np.inf)
    scores_RHM -= np.where(top_RH == -np.inf, 0, top_RH)[:, :, None]  # -inf - -inf would be no number
    weights_RHM = np.exp(scores_RHM, out=scores_RHM)
    return sums_of_sentences(weights_RHM, v_XGMU), top_RH, weights_RHM.sum(axis=2)


def merge_partials(partials):
    """Weighs each piece by exp(top - largest top): as if the largest score of all had been known."""
    sums_XRHU, tops_XRH, totals_XRH = (np.stack(parts) for parts in zip(*partials, strict=True))
    scale_XRH = np.exp(tops_XRH - tops_XRH.max(axis=0))
    a_RHU = np.einsum("xrh,xrhu->rhu", scale_XRH, sums_XRHU)
    a_RHU /= (scale_XRH * totals_XRH).sum(axis=0)[:, :, None]
    return a_RHU
