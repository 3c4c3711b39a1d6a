"""rules out the k-th largest as well: what is not above it goes."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    V = scores_RV.shape[1]
    if k < V:
        scores_RV[scores_RV <= np.sort(scores_RV, axis=1)[:, V - k, None]] = -np.inf
    return scores_RV
