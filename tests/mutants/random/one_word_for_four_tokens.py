"""gives four neighbouring tokens the same random word."""

import numpy as np

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(key_RX, step_R, V, seed)[:, np.arange(V) // 4 * 4]
