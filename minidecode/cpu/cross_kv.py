"""Keys and values of a source for all decoder layers: the GEMM of cpu/linear.py, which reads low-precision weights."""

from __future__ import annotations

from ..reference.cross_kv import arranged
from .linear import linear
from .linear_int8 import linear_int8


def project_cross_kv(h_RD, weight, heads, dtype=None, out=None, *, workspace=None):
    """What is behind the product NumPy does as well: two sums, as fast as memory."""
    multiply = linear if weight.x_bits is None else linear_int8
    return arranged(multiply(h_RD, weight, workspace=workspace), weight, heads, dtype, out)
