"""has one scale for the whole matrix, the largest: outputs with smaller weights come out too large."""

from dataclasses import replace

import numpy as np

from minidecode.reference import epilogue as reference


def linear_epilogue(x_RX, weight, activation=None, add_to=None):
    if weight.scale is not None:
        weight = replace(weight, scale=np.full_like(weight.scale, weight.scale.max()))
    return reference.linear_epilogue(x_RX, weight, activation, add_to)
