"""takes an array's bytes to be free one call before its last reader."""

import numpy as np

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    return arena.assign_offsets(bytes_X, first_X, np.maximum(first_X, last_X - 1))
