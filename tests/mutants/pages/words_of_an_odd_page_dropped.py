"""copies whole words of 32 bits: the last half of an odd page stays as it is."""

from minidecode.reference import pages


def copy_pages(k_XGMX, source_R, target_R, out=None):
    flat_XX = k_XGMX.reshape(len(k_XGMX), -1)
    whole = flat_XX.shape[1] * k_XGMX.itemsize // 4 * 4 // k_XGMX.itemsize
    pages.copy_pages(flat_XX[:, :whole], source_R, target_R)
    return k_XGMX
