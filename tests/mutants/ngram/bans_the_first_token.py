"""bans the first token of the window that repeats, not the one that follows it."""

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    for r, length in enumerate(length_R):
        tail = length - n + 1
        for start in range(tail):
            if np.array_equal(tokens_RM[r, start : start + n - 1], tokens_RM[r, tail:length]):
                scores_RV[r, tokens_RM[r, start]] = -np.inf
    return scores_RV
