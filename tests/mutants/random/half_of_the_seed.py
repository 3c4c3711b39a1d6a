"""reads the lower 32 bits of the seed alone."""

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(key_RX, step_R, V, seed & 0xFFFFFFFF)
