"""looks among the 64 likeliest tokens alone: where they do not hold the share, others are missing."""

import numpy as np

from minidecode.reference import top_p as reference


def top_p_filter(scores_RV, p, least, out=None):
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    filtered_RV = reference.top_p_filter(scores_RV.copy(), p, least)
    scores_RV[...] = filtered_RV
    np.put_along_axis(scores_RV, order_RV[:, : max(scores_RV.shape[1] - 64, 0)], -np.inf, axis=1)
    return scores_RV
