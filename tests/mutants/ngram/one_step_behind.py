"""leaves out the newest token: the ban comes one step late."""

import numpy as np

from minidecode.reference import ngram


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    return ngram.ban_ngrams(scores_RV, tokens_RM, np.maximum(length_R - 1, 0), n)
