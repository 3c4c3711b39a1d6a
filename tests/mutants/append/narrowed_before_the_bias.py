"""rounds keys and values to the memory's type before the bias is added, and the sum once more."""

import numpy as np

from minidecode.precision import held_as
from minidecode.reference.append import append_heads as right


def append_heads(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    rounded_RX, first = qkv_RX.copy(), heads.H * heads.K
    with np.errstate(invalid="ignore"):
        rounded_RX[:, first:] = held_as(k_RGMK.dtype, qkv_RX[:, first:])
    return right(rounded_RX, bias_X, heads, k_RGMK, v_RGMU, at_R)
