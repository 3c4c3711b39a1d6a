"""gives arrays of one size one buffer, as if whatever is as large were over and done with."""

import numpy as np

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    sizes_X, which_X = np.unique(bytes_X, return_inverse=True)
    return arena.assign_offsets_naive(sizes_X, sizes_X, sizes_X)[which_X]
