"""clears the old page once it is copied: the other rows that hold it lose it."""

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R, out=None):
    pages.copy_pages(k_XGMX, source_R, target_R)
    k_XGMX[source_R[source_R != target_R]] = 0
    return k_XGMX
