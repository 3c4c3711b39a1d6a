"""Columns of a sentence's candidates as beams and tokens."""

from __future__ import annotations

import numpy as np


def unravel_candidates_naive(index_BC, V, out=None):
    """Two divisions."""
    parent_BC, token_BC = index_BC // V, index_BC % V
    if out is None:
        return parent_BC, token_BC
    out[0][...], out[1][...] = parent_BC, token_BC
    return out


def unravel_candidates(index_BC, V, out=None):
    """One."""
    return np.divmod(index_BC, V, out=(None, None) if out is None else out)
