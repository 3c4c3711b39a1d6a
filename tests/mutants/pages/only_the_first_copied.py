"""copies the page of the first row that gets another, and none after it."""

import numpy as np


def copy_pages(k_XGMX, source_R, target_R, out=None):
    for r in np.flatnonzero(source_R != target_R)[:1]:
        k_XGMX[target_R[r]] = k_XGMX[source_R[r]]
    return k_XGMX
