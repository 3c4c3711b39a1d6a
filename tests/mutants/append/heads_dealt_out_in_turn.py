"""finds the head of a number by the remainder by G instead of the quotient by K."""

from minidecode.reference.append import write_positions
from minidecode.reference.heads import split_heads


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    q_RHK, *new = split_heads(qkv_RX, bias_X, heads)
    for cache_RGMX, new_RGX in zip((k_RGMK, v_RGMU), new, strict=True):
        R, G, X = new_RGX.shape
        write_positions(cache_RGMX, new_RGX.reshape(R, X, G).transpose(0, 2, 1), at_R)
    return q_RHK
