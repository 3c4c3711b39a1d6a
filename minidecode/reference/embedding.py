"""Token and position embedding."""

from __future__ import annotations

from . import room
from .move import take


def embed(ids_R, pos_R, wte_VD, wpe_ND, scale=1.0, out=None, *, workspace=None):
    """Two gathers, a product and an addition."""
    x_RD = take(wte_VD, ids_R, out=out)
    x_RD *= scale
    x_RD += take(wpe_ND, pos_R, out=room(workspace, x_RD.shape, wpe_ND))
    return x_RD
