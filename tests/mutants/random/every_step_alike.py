"""gives every step the same noise."""

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(key_RX, 0 * step_R, V, seed)
