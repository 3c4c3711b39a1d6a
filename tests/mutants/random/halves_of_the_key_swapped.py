"""swaps the halves of the key."""

from minidecode.reference import random as reference


def gumbel(key_RX, step_R, V, seed, out=None):
    return reference.gumbel(key_RX[:, ::-1], step_R, V, seed)
