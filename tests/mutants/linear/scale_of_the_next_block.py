"""multiplies each block of inputs by the scale of the next one."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.scale is not None and weight.scale.ndim > 1:
        weight = replace(weight, scale=np.roll(weight.scale, -1, axis=1))
    return reference.linear(x_RX, weight)
