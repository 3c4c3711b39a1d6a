"""adds the epsilon to the standard deviation instead of the variance."""

import numpy as np

from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, _ = reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm)
    centred_RD = x_RD - x_RD.mean(axis=1, keepdims=True)
    spread_R1 = np.sqrt(np.mean(centred_RD**2, axis=1, keepdims=True)) + np.float32(norm.eps)
    return x_RD, centred_RD / spread_R1 * norm.gain_D + norm.bias_D
