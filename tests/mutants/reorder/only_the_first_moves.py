"""moves the first row whose parent is another, and none after it."""

import numpy as np


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    for r in np.flatnonzero(parent_R != np.arange(len(parent_R)))[:1]:
        k_RGMX[r, :, : length_R[r]] = k_RGMX[parent_R[r], :, : length_R[r]]
    return k_RGMX
