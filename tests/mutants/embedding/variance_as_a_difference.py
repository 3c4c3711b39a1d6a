"""computes the variance as E[x^2] - mean^2 in float32, which loses all digits on rows far from zero."""

import numpy as np

from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out)
    x_RD, _ = reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm)
    mean_R1 = x_RD.mean(axis=1, keepdims=True)
    variance_R1 = np.mean(x_RD * x_RD, axis=1, keepdims=True) - mean_R1 * mean_R1
    return x_RD, (x_RD - mean_R1) / np.sqrt(np.maximum(variance_R1, 0) + norm.eps) * norm.gain_D + norm.bias_D
