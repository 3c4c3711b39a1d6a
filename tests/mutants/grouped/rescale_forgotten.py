"""does not scale what it has summed when a later tile has a larger score: an online softmax without rescaling."""

import numpy as np

TILE = 2


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    (R, H, _), G, U = q_RHK.shape, k_RGMK.shape[1], v_RGMU.shape[3]
    a_RHU = np.zeros((R, H, U), q_RHK.dtype)
    for r in range(R):
        for h in range(H):
            g, running_max, running_sum = h // (H // G), np.float32(-np.inf), np.float32(0)
            for m in range(begin_R[r], end_R[r], TILE):
                tile = slice(m, min(m + TILE, end_R[r]))
                scores = np.float32(scale) * (k_RGMK[r, g, tile] @ q_RHK[r, h])
                running_max = max(running_max, scores.max())
                weights = np.exp(scores - running_max)
                running_sum += weights.sum()
                a_RHU[r, h] += weights @ v_RGMU[r, g, tile]
            a_RHU[r, h] /= running_sum
    return a_RHU.reshape(R, H * U)
