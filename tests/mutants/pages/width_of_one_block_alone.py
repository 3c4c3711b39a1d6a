"""copies the numbers of a head that a block has threads for, 128: those beyond stay as they are."""

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R):
    pages.copy_pages(k_XGMX[..., :128], source_R, target_R)
    return k_XGMX
