"""has one scale for the whole matrix, the largest: outputs with smaller weights come out too large."""

from dataclasses import replace

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.scale is not None:
        weight = replace(weight, scale=np.full_like(weight.scale, weight.scale.max()))
    return reference.linear(x_RX, weight)
