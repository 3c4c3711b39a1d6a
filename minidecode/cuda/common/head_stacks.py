"""Products of heads with the matrices of their groups, as the library takes them: for prefill.py and el.py."""

from __future__ import annotations

import numpy as np


def stack_heads_by_group(x_HNX, m_GXX, result_HNX):
    """What the library multiplies: each query head's rows with the matrix of its group, in min(G, H/G) stacks."""
    H, G = len(x_HNX), len(m_GXX)
    each = H // G
    if each <= G:
        return [(x_HNX[i::each], m_GXX, result_HNX[i::each]) for i in range(each)]
    groups = ((g, slice(g * each, (g + 1) * each)) for g in range(G))
    return [(x_HNX[of], np.broadcast_to(m_GXX[g], (each, *m_GXX.shape[1:])), result_HNX[of]) for g, of in groups]
