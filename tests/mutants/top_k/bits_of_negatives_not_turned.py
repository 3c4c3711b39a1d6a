"""orders scores by their bits as they are: of two below zero, the lower one has the larger bits."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    V = scores_RV.shape[1]
    bits_RV = (scores_RV + 0).view(np.int32)
    if k < V:
        scores_RV[bits_RV < np.sort(bits_RV, axis=1)[:, V - k, None]] = -np.inf
    return scores_RV
