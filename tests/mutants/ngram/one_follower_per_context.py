"""keeps one follower of each context, the latest: the earlier ones may come again."""

import numpy as np


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    for r, length in enumerate(length_R):
        history = tokens_RM[r, :length].tolist()
        follower = {tuple(history[i : i + n - 1]): history[i + n - 1] for i in range(length - n + 1)}
        tail = tuple(history[length - n + 1 :]) if n > 1 else ()
        if tail in follower:
            scores_RV[r, follower[tail]] = -np.inf
    return scores_RV
