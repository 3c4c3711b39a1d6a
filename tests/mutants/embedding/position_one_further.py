"""takes each position's right neighbour, the last one excepted: an offset of one forgotten."""

import numpy as np

from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    if wpe_ND is None:
        return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    return reference.embed_norm(ids_R, np.minimum(pos_R + 1, len(wpe_ND) - 1), wte_VD, wpe_ND, scale, norm)
