"""adds biases up in double precision, and rounds once."""

from minidecode.reference import bias as reference


def bias_sequences(scores_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX, out=None):
    exact_RV = scores_RV.astype("float64")
    reference.bias_sequences(exact_RV, tokens_RM, length_R, list_R, ids_XXX, bias_XX)
    scores_RV[...] = exact_RV
    return scores_RV
