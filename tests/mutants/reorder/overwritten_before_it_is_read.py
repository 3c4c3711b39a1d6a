"""copies row by row in place, so that a row goes on from what its parent has become."""


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    for r, parent in enumerate(parent_R):
        k_RGMX[r, :, : length_R[r]] = k_RGMX[parent, :, : length_R[r]]
    return k_RGMX
