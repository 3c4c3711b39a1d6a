"""writes whole groups of 32 columns only: what is left over of keys and values is not written."""

from minidecode.reference.heads import split_heads


def append_paged(qkv_RX, bias_X, heads, k_XGMK, v_XGMU, table_RX, at_R, out=None):
    q_RHK, *new = split_heads(qkv_RX, bias_X, heads)
    for pages_XGMX, new_RGX in zip((k_XGMK, v_XGMU), new, strict=True):
        (R, G, X), M = new_RGX.shape, pages_XGMX.shape[2]
        whole = G * X // 32 * 32
        for r, i in ((r, i) for r in range(R) for i in range(whole)):
            pages_XGMX[table_RX[r, at_R[r] // M], i // X, at_R[r] % M, i % X] = new_RGX[r, i // X, i % X]
    return q_RHK
