"""Keys, values, scores and sums straight from hidden states: parts of el.py and el_split.py."""

from __future__ import annotations

import numpy as np

from .. import scratch
from .attention import mask_scores, multiply_by_keys, multiply_by_values


def keys_and_values(h_BND, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU):
    """What EL does without: (k_BGNK, v_BGNU), as much as h once for each key/value head."""
    k_BGNK = h_BND[:, None] @ w_k_GKD.transpose(0, 2, 1)
    v_BGNU = h_BND[:, None] @ w_v_GUD.transpose(0, 2, 1)
    return k_BGNK + b_k_GK[:, None], v_BGNU + b_v_GU[:, None]


def scores_of_hidden(q_RHK, h_BND, begin_B, w_k_GKD, scale, workspace=None):
    """scale * (q W_k) . h, -inf for padding: all heads and beams of a sentence in one product (section 3.1.1)."""
    R, H, _ = q_RHK.shape
    B, N, D = h_BND.shape
    el_q_RHD = multiply_by_group(q_RHK, w_k_GKD, workspace)
    el_q_RHD *= scale
    scores_BXN = scratch(workspace, (B, R // B * H, N), q_RHK)
    multiply_by_keys(el_q_RHD.reshape(B, 1, -1, D), h_BND[:, None], scores_BXN[:, None], workspace)
    mask_scores(scores_BXN, begin_B, np.full(B, N))
    return scores_BXN.reshape(R, H, N)


def values_of_hidden(weights_RHN, h_BND, w_v_GUD, workspace=None):
    """(sum_n weight_n h_n) W_v^T, without the bias: again one product for all heads and beams of a sentence."""
    R, H, N = weights_RHN.shape
    B, _, D = h_BND.shape
    weights_BXN = scratch(workspace, (B, R // B * H, N), weights_RHN)
    weights_BXN.reshape(R, H, N)[...] = weights_RHN  # which may be a part of a wider array
    sums_BXD = scratch(workspace, (B, R // B * H, D), weights_RHN)
    multiply_by_values(weights_BXN[:, None], h_BND[:, None], sums_BXD[:, None], workspace)
    return multiply_by_group(sums_BXD.reshape(R, H, D), w_v_GUD.transpose(0, 2, 1), workspace)


def key_bias_scores(q_RHK, b_k_GK, scale):
    """scale * q . b_k, which every position of a row and head has in its score."""
    scores_RH = np.einsum("rhk,hk->rh", q_RHK, repeat_for_query_heads(b_k_GK, q_RHK.shape[1]))
    scores_RH *= scale
    return scores_RH


def multiply_by_group(x_RHX, w_GXX, workspace=None):
    """Each head's rows times the matrix of its group; the H/G heads of a group are rows of one product."""
    (R, H, X), G = x_RHX.shape, len(w_GXX)
    columns = w_GXX.shape[2]
    x_GRXX, product_GXX = (
        scratch(workspace, (G, R, H // G, X), x_RHX),
        scratch(workspace, (G, R * (H // G), columns), x_RHX),
    )
    x_GRXX[...] = x_RHX.reshape(R, G, H // G, X).transpose(1, 0, 2, 3)
    np.matmul(x_GRXX.reshape(G, -1, X), w_GXX, out=product_GXX)
    result_RGXX = scratch(workspace, (R, G, H // G, columns), x_RHX)
    result_RGXX[...] = product_GXX.reshape(G, R, H // G, columns).transpose(1, 0, 2, 3)
    return result_RGXX.reshape(R, H, columns)


def repeat_for_query_heads(b_GX, H):
    """A group's vector once for each of its query heads."""
    return np.repeat(b_GX, H // len(b_GX), axis=0)
