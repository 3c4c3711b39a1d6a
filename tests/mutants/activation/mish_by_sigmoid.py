"""takes the logistic function for the tanh of softplus, so that mish is silu."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    return reference.bias_activation(f_RF, bias_F, "silu" if activation == "mish" else activation)
