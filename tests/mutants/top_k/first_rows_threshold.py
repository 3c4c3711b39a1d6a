"""rules out in every row what is below the first row's k-th score."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    V = scores_RV.shape[1]
    if k < V:
        scores_RV[scores_RV < np.sort(scores_RV[0])[V - k]] = -np.inf
    return scores_RV
