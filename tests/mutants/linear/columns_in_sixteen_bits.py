"""counts outputs in sixteen bits: they count to 65,535, and outputs beyond stay at 0."""

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    y_RX = reference.linear(x_RX, weight)
    y_RX[:, 65_536:] = 0
    return y_RX
