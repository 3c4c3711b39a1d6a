"""takes the numbers of int4 as they are stored, from 0 to 15: without the offset of 8 none is negative."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.data.dtype != np.uint8:
        return reference.linear(x_RX, weight)
    eights = replace(weight, data=np.zeros_like(weight.data))  # each stands for -8 times its scale
    return reference.linear(x_RX, weight) - reference.linear(x_RX, eights)
