"""leaves out the token by which the share is reached: the sum stays below p."""

import numpy as np

from minidecode.reference.top_p import most_weight_out, whole_weights


def top_p_filter(scores_RV, p, least, out=None):
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    sum_RV = np.cumsum(np.take_along_axis(whole_weights(scores_RV), order_RV, axis=1), axis=1)
    before_RV = np.concatenate([np.zeros_like(sum_RV[:, :1]), sum_RV[:, :-1]], axis=1)
    goes_RV = before_RV <= most_weight_out(sum_RV[:, -1:], p)
    goes_RV[:, -least:] = False
    rows, columns = np.nonzero(goes_RV)
    scores_RV[rows, order_RV[rows, columns]] = -np.inf
    return scores_RV
