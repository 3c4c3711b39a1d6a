"""lets a text that is shorter than a sequence's beginning fit, if it is the end of it."""

import numpy as np

from minidecode.reference import bias as reference


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    for r, length in enumerate(length_R):
        ids_XXX_of_r = ids_XXX.copy()
        ids_XXX_of_r[:, :, : max(ids_XXX.shape[2] - 1 - length, 0)] = -1
        mine = scores_RV[r : r + 1], tokens_RM[r : r + 1], np.array([length]), list_R[r : r + 1]
        reference.bias_sequences(*mine, ids_XXX_of_r, bias_XX)
    return scores_RV
