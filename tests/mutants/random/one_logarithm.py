"""takes one logarithm: exponential noise."""

import numpy as np

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return np.exp(-reference.gumbel(key_RX, step_R, V, seed))
