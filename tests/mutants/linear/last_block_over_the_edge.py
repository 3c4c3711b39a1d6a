"""stops in front of the last block of inputs, as a loop does whose last step would read over the edge."""

from dataclasses import replace

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.scale is not None and weight.scale.ndim > 1:
        scale = weight.scale.copy()
        scale[:, -1] = 0
        weight = replace(weight, scale=scale)
    return reference.linear(x_RX, weight)
