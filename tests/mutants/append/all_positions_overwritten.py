"""writes every position up to the new one, not that one alone."""

from minidecode.reference import append as reference


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    for m in range(int(at_R.max()) + 1):
        q_RHK = reference.append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R.clip(max=m))
    return q_RHK
