"""takes blocks of 128 windows, and loses the newest window where it is the only one of its block."""

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    if out is not None:
        out[...] = scores_RV
        scores_RV = out
    for r, length in enumerate(length_R):
        windows = max(length - n + 1, 0)
        if windows > 128 and windows % 128 == 1:
            windows -= 1
        history = tokens_RM[r, :length]
        for start in range(windows):
            if np.array_equal(history[start : start + n - 1], history[length - n + 1 :]):
                scores_RV[r, history[start + n - 1]] = -np.inf
    return scores_RV
