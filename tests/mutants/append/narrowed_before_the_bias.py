"""rounds keys and values to the cache's type before the bias is added, and the sum once more."""

import numpy as np

from minidecode.device.low_precision import cast_for_cache
from minidecode.reference.append import append_kv as right


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    rounded_RX, first = qkv_RX.copy(), heads.H * heads.K
    with np.errstate(invalid="ignore"):
        rounded_RX[:, first:] = cast_for_cache(k_RGMK.dtype, qkv_RX[:, first:])
    return right(rounded_RX, bias_X, heads, k_RGMK, v_RGMU, at_R)
