"""leaves the maximum in the exponent: large scores overflow."""

import numpy as np

from minidecode.reference.prefill import sentence_slices, unseen_positions


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    (R, H, _), G, U = q_RHK.shape, k_XGK.shape[1], v_XGU.shape[2]
    k_XHK, v_XHU = np.repeat(k_XGK, H // G, axis=1), np.repeat(v_XGU, H // G, axis=1)
    a_RHU = np.empty((R, H, U), np.float32)
    for q, k in sentence_slices(q_offsets_X, k_offsets_X):
        scores_HNM = q_RHK[q].transpose(1, 0, 2) @ k_XHK[k].transpose(1, 2, 0) * q_RHK.dtype.type(scale)
        scores_HNM[:, unseen_positions(*scores_HNM.shape[1:], causal, window)] = -np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            weights_HNM = np.exp(scores_HNM)
            weights_HNM /= weights_HNM.sum(axis=2, keepdims=True)
        a_RHU[q] = (weights_HNM @ v_XHU[k].transpose(1, 0, 2)).transpose(1, 0, 2)
    return a_RHU.reshape(R, H * U)
