"""compares with the end of the array, not with that of the text."""

from minidecode.reference import bias as reference


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    return reference.bias_sequences(scores_RV, tokens_RM, length_R + 1, list_R, ids_XXX, bias_XX)
