"""gives arrays of one size one buffer, as if whatever is as large were over and done with."""

import numpy as np

from minidecode.reference import arena


def place_lifetimes(bytes_X, first_X, last_X, out=None):
    sizes_X, which_X = np.unique(bytes_X, return_inverse=True)
    return arena.place_lifetimes_naive(sizes_X, sizes_X, sizes_X)[which_X]
