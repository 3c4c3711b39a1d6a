"""takes the bits of a float16 for a whole number."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.data.dtype == np.float16:
        weight = replace(weight, data=weight.data.view(np.uint16))
    return reference.linear(x_RX, weight)
