"""takes the values for the keys: their columns are behind them."""

from minidecode.reference.append import write
from minidecode.reference.heads import cut


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    qkv_RX = qkv_RX if bias_X is None else qkv_RX + bias_X
    first, keys = heads.H * heads.K, heads.G * heads.K
    values = qkv_RX.shape[1] - first - keys
    write(v_RGMU, qkv_RX[:, first : first + values].reshape(len(at_R), heads.G, heads.U), at_R)
    write(k_RGMK, qkv_RX[:, first + values :].reshape(len(at_R), heads.G, heads.K), at_R)
    return cut(qkv_RX, heads)[0]
