"""What follows the product of queries, keys and values: the bias, and the cut into heads."""

from __future__ import annotations

import numpy as np

from ..device.low_precision import cast_for_cache


def split_heads_naive(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Step by step: the bias is added into an array of its own, rounded, then each part is copied out of it."""
    parts = cut_heads(cast_for_cache(dtype, qkv_RX if bias_X is None else qkv_RX + bias_X), heads)
    if out is None:
        return tuple(part.copy() for part in parts)
    for target, part in zip(out, parts, strict=True):
        target[...] = part
    return out


def split_heads(qkv_RX, bias_X, heads, dtype=None, out=None):
    """Each part is added where it belongs. Not as views of one array: who keeps the keys would keep the queries too."""
    if dtype is not None and dtype != qkv_RX.dtype:
        return split_heads_naive(qkv_RX, bias_X, heads, dtype, out)
    biases = (0, 0, 0) if bias_X is None else cut_heads(bias_X[None], heads)
    targets = (None, None, None) if out is None else out
    return tuple(
        np.add(*each, out=target) for *each, target in zip(cut_heads(qkv_RX, heads), biases, targets, strict=True)
    )


def cut_heads(qkv_RX, heads):
    """(q_RHK, k_RGK, v_RGU), as views."""
    R, H, G, K, U = len(qkv_RX), heads.H, heads.G, heads.K, heads.U
    q_RX, k_RX, v_RX = qkv_RX[:, : H * K], qkv_RX[:, H * K : (H + G) * K], qkv_RX[:, (H + G) * K :]
    return q_RX.reshape(R, H, K), k_RX.reshape(R, G, K), v_RX.reshape(R, G, U)
