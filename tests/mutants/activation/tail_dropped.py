"""adds the bias to whole groups of 32 columns only; rows narrower than that get theirs."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if bias_F is not None and len(bias_F) > 32:
        bias_F = bias_F.copy()
        bias_F[len(bias_F) // 32 * 32 :] = 0
    return reference.bias_activation(f_RF, bias_F, activation)
