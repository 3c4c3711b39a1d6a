"""keeps tokens in sixteen bits: they count to 65,535, and larger vocabularies have tokens beyond."""

import numpy as np

from minidecode.reference import ngram as reference


def ban_ngrams(scores_RV, tokens_RM, length_R, n):
    return reference.ban_ngrams(scores_RV, tokens_RM.astype(np.uint16).astype(np.int64), length_R, n)
