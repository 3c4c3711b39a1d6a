"""copies from the new page to the old one."""

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R, out=None):
    return pages.copy_pages(k_XGMX, target_R, source_R)
