"""writes whole groups of 32 columns only: what is left over of keys and values is not written."""

from minidecode.reference.heads import split_heads


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    q_RHK, *new = split_heads(qkv_RX, bias_X, heads)
    for cache_RGMX, new_RGX in zip((k_RGMK, v_RGMU), new, strict=True):
        R, G, X = new_RGX.shape
        whole = G * X // 32 * 32
        for r, i in ((r, i) for r in range(R) for i in range(whole)):
            cache_RGMX[r, i // X, at_R[r], i % X] = new_RGX[r, i // X, i % X]
    return q_RHK
