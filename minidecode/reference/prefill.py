"""Attention inside each sentence: prompts, encoders, and sources seen from targets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .common.attention import add_position_bias
from .common.softmax import softmax


def attend_prefill_naive(
    q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None
):
    """One elementary operation after the other, each into an array of its own, as a framework would launch them."""
    R, H, _ = q_RHK.shape
    G, U = v_XGU.shape[1:]
    multiplied = q_RHK.dtype
    q_RHK, k_XGK, v_XGU = cast_for_sums(q_RHK, k_XGK, v_XGU)
    if H > G:  # a copy of keys and values for each query head
        k_XGK, v_XGU = np.repeat(k_XGK, H // G, axis=1), np.repeat(v_XGU, H // G, axis=1)
    a_RHU = np.empty_like(q_RHK, shape=(R, H, U), order="C") if out is None else out.reshape(R, H, U)
    for q_rows, k_rows in sentence_slices(q_offsets_X, k_offsets_X):
        q_HNK = q_RHK[q_rows].transpose(1, 0, 2).copy()
        k_HKM = k_XGK[k_rows].transpose(1, 2, 0).copy()
        v_HMU = v_XGU[k_rows].transpose(1, 0, 2).copy()
        products_HNM = q_HNK @ k_HKM
        scaled_HNM = products_HNM * scale
        if bias is not None:
            distance_NM = positions_back(*scaled_HNM.shape[1:], causal)
            add_position_bias(scaled_HNM.transpose(1, 0, 2), bias.of_rows(q_rows), distance_NM)
        unseen_NM = unseen_positions(*scaled_HNM.shape[1:], causal, window)
        scores_HNM = np.where(unseen_NM, -np.inf, scaled_HNM).astype(q_RHK.dtype, copy=False)
        top_HN1 = scores_HNM.max(axis=-1, keepdims=True)
        below_HNM = scores_HNM - top_HN1
        exp_HNM = np.exp(below_HNM)
        total_HN1 = exp_HNM.sum(axis=-1, keepdims=True)
        weights_HNM = round_weights(multiplied, exp_HNM / total_HN1)
        a_HNU = weights_HNM @ v_HMU
        a_RHU[q_rows] = a_HNU.transpose(1, 0, 2)
    return a_RHU.reshape(R, H * U)


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    """Heads by strides, not by copies; scores become weights in place; if causal, only a band is left unmasked."""
    R, H, K = q_RHK.shape
    G, U = v_XGU.shape[1:]
    multiplied = q_RHK.dtype
    q_RHK, k_XGK, v_XGU = cast_for_sums(q_RHK, k_XGK, v_XGU)
    a_RHU = np.empty((R, H, U), q_RHK.dtype) if out is None else out.reshape(R, H, U)
    for q_rows, k_rows in sentence_slices(q_offsets_X, k_offsets_X):
        N, M = q_rows.stop - q_rows.start, k_rows.stop - k_rows.start
        q_GXK = q_RHK[q_rows].transpose(1, 0, 2).reshape(G, -1, K)  # the H/G query heads of a group, stacked
        k_GKM = k_XGK[k_rows].transpose(1, 2, 0)
        v_GMU = v_XGU[k_rows].transpose(1, 0, 2)
        scores_HNM = (q_GXK @ k_GKM).reshape(H, N, M)
        scores_HNM *= scale
        if bias is not None:
            add_bias_of_distances(scores_HNM, bias.of_rows(q_rows), M - N if causal else 0)
        if causal:
            scores_HNM[:, unseen_positions(N, M, causal, window)] = -np.inf
        weights_GXM = round_weights(multiplied, softmax(scores_HNM)).reshape(G, -1, M)
        a_RHU[q_rows] = (weights_GXM @ v_GMU).reshape(H, N, U).transpose(1, 0, 2)
    return a_RHU.reshape(R, H * U)


def cast_for_sums(*arrays):
    """The arrays in the type of the sums: copies in float32 of those in float16."""
    return tuple(a.astype(np.float32) if a.dtype == np.float16 else a for a in arrays)


def round_weights(multiplied, weights_HNM):
    """The weights as a product of float16 numbers gets them; in other types as they are."""
    return cast_for_sums(weights_HNM.astype(multiplied))[0] if multiplied == np.float16 else weights_HNM


def add_bias_of_distances(scores_HNM, bias, offset=0):
    """Adds to each score what the bias has for its distance: query n stands at position offset + n, key m at m.

    A bias for all rows is the same along each diagonal: one number for each distance, which rows read shifted by one.
    """
    _, N, M = scores_HNM.shape
    if len(bias.bias_XHP) > 1:
        distance_NM = offset + np.arange(N)[:, None] - np.arange(M)
        return add_position_bias(scores_HNM.transpose(1, 0, 2), bias, distance_NM)
    distance_X = np.arange(offset + N - 1, offset - M, -1)  # from the largest to the smallest
    bucket_X = bias.bucket_L[np.clip(distance_X + bias.zero, 0, len(bias.bucket_L) - 1)]
    scores_HNM += sliding_window_view(bias.bias_XHP[0][:, bucket_X], M, axis=1)[:, ::-1]


def sentence_slices(q_offsets_X, k_offsets_X):
    """(query rows, key rows) of each sentence that has queries, as slices.

    Raises ValueError where there is no key for them to look at.
    """
    pairs = zip(pairwise(q_offsets_X.tolist()), pairwise(k_offsets_X.tolist()), strict=True)
    for b, (q_ends, k_ends) in enumerate(pairs):
        if q_ends[0] == q_ends[1]:
            continue
        if k_ends[0] == k_ends[1]:
            raise ValueError(f"sentence {b} has queries and no keys: a softmax over nothing")
        yield slice(*q_ends), slice(*k_ends)


def positions_back(N, M, causal):
    """back_NM: how far back each key lies. The queries of a causal sentence stand at the last N of its M positions."""
    return np.arange(N)[:, None] + (M - N if causal else 0) - np.arange(M)


def unseen_positions(N, M, causal, window):
    """unseen_NM: if causal, what lies ahead of a query, and what a window has left behind."""
    back_NM = positions_back(N, M, causal)
    return (back_NM < 0) | (back_NM >= (window or M)) if causal else np.zeros((N, M), bool)
