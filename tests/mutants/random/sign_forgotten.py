"""gives the noise of the smallest, not of the largest."""

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return -reference.gumbel(key_RX, step_R, V, seed)
