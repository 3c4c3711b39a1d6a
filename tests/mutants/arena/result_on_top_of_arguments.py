"""lets a call write its result over what it still reads: whoever is read last there is free already."""

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    return arena.assign_offsets(bytes_X, 2 * first_X + 1, 2 * last_X + (first_X == last_X))
