"""moves the first head alone."""

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    reorder.reorder_cache(k_RGMX[:, :1], parent_R, length_R)
    return k_RGMX
