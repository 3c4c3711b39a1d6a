"""takes logarithms in float32."""

import numpy as np

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(key_RX, step_R, V, seed).astype(np.float32).astype(np.float64)
