"""keeps a share p of the tokens, and not of their probability."""

import numpy as np


def top_p_filter(scores_RV, p, least, out=None):
    V = scores_RV.shape[1]
    goes = min(int((1 - p) * V), max(V - least, 0))
    order_RV = np.argsort(scores_RV, axis=1, kind="stable")
    np.put_along_axis(scores_RV, order_RV[:, :goes], -np.inf, axis=1)
    return scores_RV
