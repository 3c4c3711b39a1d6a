"""Attention that looks up where a row's own positions lie, compiled for the CPU: nothing is gathered first."""

from __future__ import annotations

import numpy as np

from ..reference.common.attention import (
    add_position_bias,
    distances_back,
    join_heads,
    mask_scores,
    scores_of_sentences,
    sums_of_sentences,
)
from ..reference.common.softmax import softmax
from .common.jit import REORDER, njit
from .common.low_precision import cast_all, f32, view_as_bits


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    """The prompt as `attend_split` has it, by products over all beams of a sentence; the rest through the table."""
    (R, H, _), (B, _, N, _), T = q_RHK.shape, prompt_k_BGNK.shape, int(end_R.max())
    q_RHK = np.ascontiguousarray(q_RHK)  # a view of what a product gave: where neighbours touch, vectors are loaded
    scores_RHM = np.empty((R, H, N + T), q_RHK.dtype)
    scores_RHM[:, :, :N] = scores_of_sentences(q_RHK, prompt_k_BGNK, scale, cast=cast_all)
    _scores(q_RHK, view_as_bits(k_RGTK), indirection_RT, q_RHK.dtype.type(scale), scores_RHM[:, :, N:])
    if bias is not None:
        add_position_bias(scores_RHM, bias, distances_back(end_R + N, N + T))
    mask_scores(scores_RHM[:, :, :N], np.repeat(prompt_begin_B, R // B), np.full(R, N))
    mask_scores(scores_RHM[:, :, N:], begin_R, end_R)
    weights_RHM = softmax(scores_RHM)
    a_RHU = sums_of_sentences(weights_RHM[:, :, :N], prompt_v_BGNU, cast=cast_all)
    _add_sums(weights_RHM[:, :, N:], view_as_bits(v_RGTU), indirection_RT, a_RHU)
    return join_heads(a_RHU, out)


@njit(cache=True, fastmath=REORDER)
def _scores(q_RHK, k_RGTK, indirection_RT, scale, scores_RHT):
    R, H, T = scores_RHT.shape
    per_group = H // k_RGTK.shape[1]
    for r in range(R):
        for t in range(T):
            k_GTK = k_RGTK[indirection_RT[r, t]]
            for h in range(H):
                q_K, k_K = q_RHK[r, h], k_GTK[h // per_group, t]
                total = scale * 0
                for i in range(len(k_K)):
                    total += q_K[i] * f32(k_K[i])
                scores_RHT[r, h, t] = scale * total


@njit(cache=True, fastmath=REORDER)
def _add_sums(weights_RHT, v_RGTU, indirection_RT, a_RHU):
    R, H, T = weights_RHT.shape
    per_group = H // v_RGTU.shape[1]
    for r in range(R):
        for t in range(T):
            v_GTU = v_RGTU[indirection_RT[r, t]]
            for h in range(H):
                a_U, v_U = a_RHU[r, h], v_GTU[h // per_group, t]
                for u in range(len(v_U)):
                    a_U[u] += weights_RHT[r, h, t] * f32(v_U[u])
