"""adds the bias to whole groups of 32 columns only: what is left over stays as it was."""

from minidecode.reference import heads as reference


def split_heads(qkv_RX, bias_X, heads, out=None):
    if bias_X is not None:
        bias_X = bias_X.copy()
        bias_X[len(bias_X) // 32 * 32 :] = 0
    return reference.split_heads(qkv_RX, bias_X, heads)
