"""multiplies the first row only, and gives its result to all."""

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    return np.repeat(reference.linear(x_RX[:1], weight), len(x_RX), axis=0)
