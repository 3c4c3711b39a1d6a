"""Keys and values of a source for all decoder layers: the GEMM of cpu/linear.py, which reads low-precision weights."""

from __future__ import annotations

from ..reference.cross_kv import arranged
from .linear import linear


def project_cross_kv(h_RD, weight, heads, out=None, *, workspace=None):
    """What is behind the product NumPy does as well: two sums, as fast as memory."""
    return arranged(linear(h_RD, weight, workspace=workspace), weight, heads, out)
