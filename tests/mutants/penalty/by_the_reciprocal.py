"""multiplies by 1/penalty, which rounds twice."""

import numpy as np


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    penalty = np.float32(penalty)
    for r, x in enumerate(list_R):
        ids = np.unique(tokens_XM[x, : length_X[x]])
        ids = ids[ids < scores_RV.shape[1]]
        found = scores_RV[r, ids]
        with np.errstate(over="ignore"):
            scores_RV[r, ids] = np.where(found < 0, found * penalty, found * (np.float32(1) / penalty))
    return scores_RV
