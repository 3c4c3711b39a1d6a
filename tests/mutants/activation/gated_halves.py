"""takes halves of the columns for gate and up, which lie in pairs."""

from minidecode.reference import activation as reference


def bias_activation(f_RX, bias_X, activation, out=None):
    if not activation.startswith("gated-"):
        return reference.bias_activation(f_RX, bias_X, activation)
    y_RX = f_RX if bias_X is None else f_RX + bias_X
    half = y_RX.shape[1] // 2
    return reference.bias_activation(y_RX[:, :half], None, activation.removeprefix("gated-")) * y_RX[:, half:]
