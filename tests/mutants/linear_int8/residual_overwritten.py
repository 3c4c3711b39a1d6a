"""writes its results over the residual, to which they should be added."""

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    y_RX = reference.linear_int8(x_RX, weight, bias_X, activation)
    if add_to is None:
        return y_RX
    add_to[...] = y_RX
    return add_to
