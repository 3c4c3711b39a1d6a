"""counts positions in twelve bits: they count to 4,095, and windows that begin beyond are passed over."""

import numpy as np

from minidecode.reference import ngram as reference


def ban_ngrams(scores_RV, tokens_RM, length_R, n):
    tokens_RM = tokens_RM.copy()
    begin_M = np.arange(tokens_RM.shape[1])
    tokens_RM[(begin_M >= 4096) & (begin_M <= length_R[:, None] - n)] = -1
    return reference.ban_ngrams(scores_RV, tokens_RM, length_R, n)
