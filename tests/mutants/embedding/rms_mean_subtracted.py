"""takes the mean off in an RMS norm too: that is a layer norm without a bias."""

import numpy as np

from minidecode.ops import Norm
from minidecode.reference import embedding as reference


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    shift_D = np.zeros_like(norm.gain_D) if norm.bias_D is None else norm.bias_D
    return reference.embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, Norm(norm.gain_D, shift_D, norm.eps))
