"""takes GPT-2's approximation by tanh for the exact GELU."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    return reference.bias_activation(f_RF, bias_F, "gelu_new" if activation == "gelu" else activation)
