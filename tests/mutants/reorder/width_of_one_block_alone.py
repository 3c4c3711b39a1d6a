"""moves the numbers of a head that a block has threads for, 128: those beyond stay where they are."""

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R):
    reorder.reorder_cache(k_RGMX[..., :128], parent_R, length_R)
    return k_RGMX
