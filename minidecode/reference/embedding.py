"""Token and position embedding with the layer normalisation behind it."""

from __future__ import annotations

from .move import gather_rows
from .norm import layer_norm, layer_norm_naive


def embed_norm_naive(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """The composition that a fused kernel replaces: two gathers, a product, an addition, and the norm's operations."""
    out_x, out_h = out or (None, None)
    x_RD = gather_rows(wte_VD, ids_R, out=out_x)
    x_RD *= scale
    if wpe_ND is not None:
        x_RD += gather_rows(wpe_ND, pos_R)
    return x_RD, layer_norm_naive(x_RD, norm, out=out_h)


def embed_norm(ids_R, pos_R, wte_VD, wpe_ND, scale, norm, out=None):
    """Gathers, scales and adds in two arrays: the second one holds the positions until they are added."""
    x_RD, h_RD = out or (None, None)
    x_RD = gather_rows(wte_VD, ids_R, out=x_RD)
    x_RD *= scale
    if wpe_ND is not None:
        h_RD = gather_rows(wpe_ND, pos_R, out=h_RD)
        x_RD += h_RD
    return x_RD, layer_norm(x_RD, norm, out=h_RD)
