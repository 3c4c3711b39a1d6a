"""adds, of several biases of a token, the last alone."""

import numpy as np

from minidecode.reference import bias as reference


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    before_RV = scores_RV.copy()
    for s in range(ids_XXX.shape[1]):
        changed_RV = before_RV.copy()
        reference.bias_sequences(changed_RV, tokens_RM, length_R, list_R, ids_XXX[:, [s]], bias_XX[:, [s]])
        np.copyto(scores_RV, changed_RV, where=changed_RV != before_RV)
    return scores_RV
