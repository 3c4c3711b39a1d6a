"""adds the first layer's bias in every layer."""

from dataclasses import replace

import numpy as np

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    if weight.bias is not None:
        width = heads.G * (heads.K + heads.U)
        weight = replace(weight, bias=np.tile(weight.bias[:width], len(weight.bias) // width))
    return cross_kv.project_cross_kv(h_RD, weight, heads)
