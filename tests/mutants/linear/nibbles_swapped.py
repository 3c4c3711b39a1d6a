"""reads the upper half of a byte of int4 as its first number: the two halves of each block change places."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.data.dtype == np.uint8:
        weight = replace(weight, data=weight.data << 4 | weight.data >> 4)
    return reference.linear(x_RX, weight)
