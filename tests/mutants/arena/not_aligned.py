"""puts one array right behind the other, wherever that ends."""

import numpy as np

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    ends_X = arena.assign_offsets(64 * bytes_X, first_X, last_X)  # as if an array might begin on every byte
    return np.asarray(ends_X // 64)
