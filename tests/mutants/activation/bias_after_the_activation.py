"""adds the bias to what the activation gives, instead of to what it is given."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    activated_RF = reference.bias_activation(f_RF, None, activation)
    return activated_RF if bias_F is None else activated_RF + bias_F
