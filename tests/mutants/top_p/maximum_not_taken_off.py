"""takes exponentials of scores as they are: those of large logits overflow, those of small ones vanish."""

import numpy as np


def top_p_filter(scores_RV, p, least, out=None):
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    with np.errstate(all="ignore"):
        e_RV = np.exp(np.take_along_axis(scores_RV, order_RV, axis=1).astype(np.float64))
        sum_RV = np.cumsum(e_RV, axis=1)
        goes_RV = sum_RV <= (1 - p) * sum_RV[:, -1:]
    goes_RV[:, -least:] = False
    rows, columns = np.nonzero(goes_RV)
    scores_RV[rows, order_RV[rows, columns]] = -np.inf
    return scores_RV
