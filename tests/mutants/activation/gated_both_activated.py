"""activates both numbers of a pair; only the gate is activated."""

from minidecode.reference import activation as reference


def bias_activation(f_RX, bias_X, activation, out=None):
    if not activation.startswith("gated-"):
        return reference.bias_activation(f_RX, bias_X, activation)
    y_RX = f_RX if bias_X is None else f_RX + bias_X
    y_RX = reference.bias_activation(y_RX, None, activation.removeprefix("gated-"))
    return y_RX[:, 0::2] * y_RX[:, 1::2]
