"""Additions of what may be absent: pieces of the kernels beside this file."""

from __future__ import annotations

from numba import cuda


@cuda.jit(device=True)
def with_bias(x, bias_X, i):
    """x + bias[i], or x where there is no bias: an empty array stands for one (`or_empty`)."""
    return x + bias_X[i] if bias_X.shape[0] > 0 else x
