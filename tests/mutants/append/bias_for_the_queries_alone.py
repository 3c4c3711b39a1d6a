"""writes keys and values as they come from the product, without their bias."""

from minidecode.reference import append as reference


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    if bias_X is not None:
        reference.append_kv(qkv_RX, None, heads, k_RGMK, v_RGMU, at_R)
        return reference.append_kv(qkv_RX, bias_X, heads, k_RGMK.copy(), v_RGMU.copy(), at_R)
    return reference.append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R)
