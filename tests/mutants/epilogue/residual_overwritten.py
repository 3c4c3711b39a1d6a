"""writes the result over the residual instead of adding it: GEMM with beta = 0."""

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    y_RX = reference.linear_epilogue(x_RX, weight, activation)
    if add_to is None:
        return y_RX
    add_to[...] = y_RX
    return add_to
