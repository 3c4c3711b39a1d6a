"""copies from the page with the number of the row."""

import numpy as np

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R, out=None):
    row_R = np.arange(len(source_R)) % len(k_XGMX)
    return pages.copy_pages(k_XGMX, np.where(source_R == target_R, source_R, row_R), target_R)
