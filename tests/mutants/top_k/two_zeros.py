"""orders scores by their bits with minus zero below zero: they are one score."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    V, bits_RV = scores_RV.shape[1], scores_RV.view(np.int32)
    key_RV = np.where(bits_RV < 0, bits_RV ^ 0x7FFFFFFF, bits_RV)
    if k < V:
        scores_RV[key_RV < np.sort(key_RV, axis=1)[:, V - k, None]] = -np.inf
    return scores_RV
