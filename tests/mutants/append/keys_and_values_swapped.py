"""takes the values for the keys: their columns are behind them."""

from minidecode.reference.append import write_positions
from minidecode.reference.heads import cut_heads


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    qkv_RX = qkv_RX if bias_X is None else qkv_RX + bias_X
    first, keys = heads.H * heads.K, heads.G * heads.K
    values = qkv_RX.shape[1] - first - keys
    write_positions(v_RGMU, qkv_RX[:, first : first + values].reshape(len(at_R), heads.G, heads.U), at_R)
    write_positions(k_RGMK, qkv_RX[:, first + values :].reshape(len(at_R), heads.G, heads.K), at_R)
    return cut_heads(qkv_RX, heads)[0]
