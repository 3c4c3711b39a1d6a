"""leaves out the upper bound of gelu_10, which is gelu then."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    return reference.bias_activation(f_RF, bias_F, "gelu" if activation == "gelu_10" else activation)
