"""takes a gap that is one cache line too small: off by one at its end."""

import numpy as np

from minidecode.ops import ALIGNED
from minidecode.reference import arena


def assign_offsets(bytes_X, first_X, last_X, out=None):
    offset_X = np.zeros_like(bytes_X)
    for i in np.flatnonzero(bytes_X):
        end = 0
        met = [j for j in range(i) if first_X[j] <= last_X[i] and first_X[i] <= last_X[j] and bytes_X[j]]
        for j in sorted(met, key=lambda j: offset_X[j]):
            if offset_X[j] - end > 0 and offset_X[j] - end + ALIGNED >= bytes_X[i]:
                break
            end = max(end, offset_X[j] + arena.rounded_to_alignment(bytes_X[j]))
        offset_X[i] = end
    return offset_X
