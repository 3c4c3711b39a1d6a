"""takes the whole width of tokens for the history: what lies behind a row's length bans too."""

import numpy as np

from minidecode.reference import ngram


def ban_ngrams(scores_RV, tokens_RM, length_R, n, out=None):
    return ngram.ban_ngrams(scores_RV, tokens_RM, np.full(len(length_R), tokens_RM.shape[1]), n)
