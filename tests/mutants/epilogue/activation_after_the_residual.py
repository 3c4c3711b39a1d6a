"""activates the sum with the residual: what is in the residual stream passes through the activation too."""

from minidecode.reference import epilogue as reference
from minidecode.reference.activation import ACTIVATIONS


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    y_RX = reference.linear_epilogue(x_RX, weight, None, add_to)
    if activation is not None:
        ACTIVATIONS[activation](y_RX, None)
    return y_RX
