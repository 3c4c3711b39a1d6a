"""Matrix products with weights."""

from __future__ import annotations

import numpy as np


def linear(x_RX, weight, add_to=None, out=None):
    """One BLAS product; a weight stored (out, in) is transposed as a view, not copied."""
    if weight.scale is not None:
        raise ValueError("the reference product takes no integer weights: dequantize them first")
    matrix = weight.data if weight.layout == "io" else weight.data.T
    if add_to is None:
        return np.matmul(x_RX, matrix, out=out)
    add_to += x_RX @ matrix
    return add_to
