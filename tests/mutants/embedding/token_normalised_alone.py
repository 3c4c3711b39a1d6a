"""normalises the token before the position is there: x is right, h is not."""

import numpy as np

from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    if wpe_ND is None:
        return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, _ = reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm)
    _, h_RD = reference.embed_norm(ids_R, pos_R, wte_VD, np.zeros_like(wpe_ND), scale, norm)
    return x_RD, h_RD
