"""Following the beams, compiled for the CPU: what moves is read and written once (common/follow_parents.py)."""

from __future__ import annotations

from .common.follow_parents import follow_parents


def reorder_cache(k_RGMX, parent_R, length_R, out=None):
    """Row after row, in an order in which nothing is lost; NumPy's gather writes all that moves twice."""
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    bits_RGMX = k_RGMX.view(f"u{k_RGMX.itemsize}")  # whatever they stand for: Numba knows no halves on the CPU
    follow_parents(bits_RGMX, parent_R, int(length_R.max()))
    return k_RGMX
