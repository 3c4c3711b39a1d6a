"""gives each array a buffer of its own: nothing is wrong but the bytes."""

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    return arena.assign_offsets_naive(bytes_X, first_X, last_X)
