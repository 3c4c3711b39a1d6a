"""takes the exact GELU for GPT-2's approximation."""

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    is_approximate = activation in ("gelu_new", "gelu_fast", "gelu_pytorch_tanh")
    return reference.bias_activation(f_RF, bias_F, "gelu" if is_approximate else activation)
