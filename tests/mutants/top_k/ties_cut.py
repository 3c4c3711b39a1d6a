"""leaves exactly k: of those that equal the k-th, the higher columns go."""

import numpy as np


def top_k_filter(scores_RV, k, out=None):
    goes_RV = np.argsort(-scores_RV, axis=1, kind="stable")[:, k:]
    np.put_along_axis(scores_RV, goes_RV, -np.inf, axis=1)
    return scores_RV
