"""stops at the rough threshold, the least maximum of k groups, as LightSeq does: more than k reach it."""

import numpy as np

from minidecode.reference.candidates import group_maxima


def top_k_filter(scores_RV, k, out=None):
    for scores_V in scores_RV:
        if k < len(scores_V):
            scores_V[scores_V < group_maxima(scores_V, k).min()] = -np.inf
    return scores_RV
