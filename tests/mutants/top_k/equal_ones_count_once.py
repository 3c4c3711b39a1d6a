"""takes the k-th largest of the different scores: equal ones count once."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    for scores_V in scores_RV:
        different = np.unique(scores_V)
        scores_V[scores_V < different[max(len(different) - k, 0)]] = -np.inf
    return scores_RV
