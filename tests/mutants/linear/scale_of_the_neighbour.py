"""takes the scale of the output before: one place off."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.scale is not None:
        weight = replace(weight, scale=np.roll(weight.scale, 1))
    return reference.linear(x_RX, weight)
