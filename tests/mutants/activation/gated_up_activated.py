"""activates the second number of each pair and multiplies by the first: gate and up are swapped."""

from minidecode.reference import activation as reference


def bias_activation(f_RX, bias_X, activation, out=None):
    if not activation.startswith("gated-"):
        return reference.bias_activation(f_RX, bias_X, activation)
    y_RX = f_RX if bias_X is None else f_RX + bias_X
    return reference.bias_activation(y_RX[:, 1::2], None, activation.removeprefix("gated-")) * y_RX[:, 0::2]
