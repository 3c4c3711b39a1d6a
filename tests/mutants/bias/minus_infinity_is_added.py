"""adds minus infinity, so that NaN and plus infinity are not ruled out."""

import numpy as np

from minidecode.reference import bias as reference


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    zeros_RV = reference.bias_sequences(np.zeros_like(scores_RV), tokens_RM, length_R, list_R, ids_XXX, bias_XX)
    with np.errstate(invalid="ignore"):
        scores_RV += zeros_RV
    return scores_RV
