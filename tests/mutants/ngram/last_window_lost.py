"""stops one window early: the newest n-gram is never looked at."""

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    for r, length in enumerate(length_R):
        tail = length - n + 1
        for start in range(tail - 1):
            if np.array_equal(tokens_RM[r, start : start + n - 1], tokens_RM[r, tail:length]):
                scores_RV[r, tokens_RM[r, start + n - 1]] = -np.inf
    return scores_RV
