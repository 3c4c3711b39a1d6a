"""forgets arrays that are written and read last in one call: they may lie anywhere, and lie at the beginning."""

import numpy as np

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    return arena.assign_offsets(np.where(first_X == last_X, 0, bytes_X), first_X, last_X)
