"""takes over one position more than is written."""

import numpy as np

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    return reorder.reorder_cache(k_RGMX, parent_R, np.minimum(length_R + 1, k_RGMX.shape[2]))
