"""starts the groups' maxima at 0: where the scores of a group are negative, as log-probabilities are, it is 0."""

import numpy as np

from minidecode.reference.candidates import group_maxima, top_candidates_naive


def top_candidates(scores_BX, C, out=None):
    threshold_B1 = np.array([[np.maximum(group_maxima(scores_X, C), 0).min()] for scores_X in scores_BX])
    return top_candidates_naive(np.where(scores_BX < threshold_B1, -np.inf, scores_BX).astype(scores_BX.dtype), C)
