"""adds the first layer's bias in every layer."""

from dataclasses import replace

import numpy as np

from minidecode.reference import cross


def project_source(h_RD, weight, heads, out=None):
    if weight.bias is not None:
        width = heads.G * (heads.K + heads.U)
        weight = replace(weight, bias=np.tile(weight.bias[:width], len(weight.bias) // width))
    return cross.project_source(h_RD, weight, heads)
