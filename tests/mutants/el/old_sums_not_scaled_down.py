"""goes on with what it summed so far as it is, where a tile brings a larger score."""

import numpy as np

from minidecode.reference import el as reference


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    (R, H, _), (B, N, D) = q_RHK.shape, h_BND.shape
    scores_RHN = reference.scores_of_hidden(q_RHK, h_BND, begin_B, w_k_GKD, scale)
    a_RHU = np.empty((R, H, w_v_GUD.shape[1]), q_RHK.dtype)
    group_H = np.arange(H) // (H // len(w_k_GKD))
    for r in range(R):
        b = r // (R // B)
        for h, g in enumerate(group_H):
            running_max, running_sum, sums_D = -np.inf, np.float32(0), np.zeros(D, np.float32)
            for n in range(begin_B[b], N):
                running_max = max(running_max, scores_RHN[r, h, n])
                weight = np.exp(scores_RHN[r, h, n] - running_max)
                running_sum += weight
                sums_D += weight * h_BND[b, n]
            a_RHU[r, h] = w_v_GUD[g] @ sums_D / running_sum + b_v_GU[g]
    return a_RHU.reshape(R, -1)
