"""counts positions in twelve bits: they count to 4,095, and positions beyond stay where they are."""

from minidecode.reference import reorder


def reorder_cache(k_RGMX, parent_R, length_R):
    reorder.reorder_cache(k_RGMX[:, :, :4096], parent_R, length_R.clip(max=4096))
    return k_RGMX
