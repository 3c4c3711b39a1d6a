"""goes over the keys by tiles of 32, and leaves the sums of earlier tiles as they are when a later score is larger."""

import numpy as np

from minidecode.reference.prefill import sentence_slices, unseen_positions

TILE = 32


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    (R, H, _), G, U = q_RHK.shape, k_XGK.shape[1], v_XGU.shape[2]
    k_XHK, v_XHU = (np.repeat(x, H // G, axis=1).astype(np.float32) for x in (k_XGK, v_XGU))
    a_RHU = np.zeros((R, H, U), np.float32)
    for q, k in sentence_slices(q_offsets_X, k_offsets_X):
        scores_HNM = q_RHK[q].transpose(1, 0, 2).astype(np.float32) @ k_XHK[k].transpose(1, 2, 0) * np.float32(scale)
        scores_HNM[:, unseen_positions(*scores_HNM.shape[1:], causal, window)] = -np.inf
        top_HN1, total_HN1 = np.full((*scores_HNM.shape[:2], 1), -3e38, np.float32), np.float32(0)
        for m in range(0, scores_HNM.shape[2], TILE):
            top_HN1 = np.maximum(top_HN1, scores_HNM[..., m : m + TILE].max(axis=2, keepdims=True))
            weights_HNM = np.exp(scores_HNM[..., m : m + TILE] - top_HN1)
            total_HN1 = total_HN1 + weights_HNM.sum(axis=2, keepdims=True)
            a_RHU[q] += (weights_HNM @ v_XHU[k][m : m + TILE].transpose(1, 0, 2)).transpose(1, 0, 2)
        a_RHU[q] /= total_HN1.transpose(1, 0, 2)
    return a_RHU.reshape(R, H * U)
