"""gives all rows the first one's key."""

import numpy as np

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(np.repeat(key_RX[:1], len(key_RX), axis=0), step_R, V, seed)
