"""reads every matrix as if its outputs lay side by side, whatever its layout says."""

from dataclasses import replace

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    data = weight.data.reshape(x_RX.shape[1], -1)
    return reference.linear(x_RX, replace(weight, data=data, layout="io"))
