"""takes the values for the keys: their columns are behind them."""

from minidecode.reference import heads as reference


def split_heads(qkv_RX, bias_X, heads, out=None):
    qkv_RX = qkv_RX if bias_X is None else qkv_RX + bias_X
    R, first, values = len(qkv_RX), heads.H * heads.K, heads.G * heads.U
    q_RHK = reference.cut_heads(qkv_RX, heads)[0]
    v_RX, k_RX = qkv_RX[:, first : first + values], qkv_RX[:, first + values :]
    return q_RHK, k_RX.reshape(R, heads.G, heads.K), v_RX.reshape(R, heads.G, heads.U)
