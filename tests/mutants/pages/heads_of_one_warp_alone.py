"""copies the heads that a warp has threads for, 32: heads beyond stay as they are."""

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R):
    pages.copy_pages(k_XGMX[:, :32], source_R, target_R)
    return k_XGMX
