"""looks for room in the newest buffer alone: if that is taken, it opens another one, whatever is free below."""

import numpy as np

from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    offset_X, newest, end = np.zeros_like(bytes_X), 0, 0
    for i in np.flatnonzero(bytes_X):
        above = [j for j in range(i) if offset_X[j] + bytes_X[j] > newest]
        if any(first_X[j] <= last_X[i] and first_X[i] <= last_X[j] for j in above):
            newest = end
        offset_X[i] = newest
        end = max(end, newest + arena.rounded_to_alignment(bytes_X[i]))
    return offset_X
