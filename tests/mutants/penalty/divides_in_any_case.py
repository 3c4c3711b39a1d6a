"""divides negative scores as well, which makes such tokens likelier (the mistake that CTRL's first code had)."""

import numpy as np


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    for r, x in enumerate(list_R):
        ids = np.unique(tokens_XM[x, : length_X[x]])
        scores_RV[r, ids[ids < scores_RV.shape[1]]] /= np.float32(penalty)
    return scores_RV
