"""Matrix products with weights, which may be stored in fewer bits than `x` (see device/low_precision.py)."""

from __future__ import annotations

import numpy as np

from ..device.low_precision import dequantize_weight, is_narrow, round_rows_to_float16, rounding, unpack_panels
from ..device.weight_blocks import BLOCK, PANEL_OUTPUTS, is_in_blocks
from . import scratch

CACHED = 2**17  # weights that are cast together: half a megabyte of float32, which stays in the L2 cache


def linear_naive(x_RX, weight, add_to=None, out=None):
    """A low-precision matrix is cast whole, written to memory and read back by the product: more bytes, not fewer."""
    matrix = dequantize_weight(weight, x_RX.dtype)
    y_RX = np.matmul(x_RX, matrix if weight.layout == "io" else matrix.T, out=out)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


def linear(x_RX, weight, add_to=None, out=None, *, workspace=None):
    """One BLAS product; a weight stored (out, in) is transposed as a view, not copied. Others are cast in pieces."""
    if weight.layout == "panels" and not is_in_blocks(weight):
        weight = unpack_panels(weight)
    if weight.data.dtype == x_RX.dtype:
        y_RX = np.matmul(x_RX, weight.data if weight.layout == "io" else weight.data.T, out=out)
    elif is_in_blocks(weight):
        y_RX = product_of_blocks(x_RX, weight, out)
    else:
        y_RX = product_by_blocks(x_RX, weight, out, np.copyto, workspace)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


@rounding
def linear_rounded(x_RX, weight, add_to=None, out=None, *, workspace=None):
    """What devices compute: rows that meet weights of fewer bits than float32 are rounded to float16 before."""
    x_RX = round_rows_to_float16(x_RX) if is_narrow(weight) else x_RX
    return linear(x_RX, weight, add_to, out, workspace=workspace)


def product_by_blocks(x_RX, weight, out, cast, workspace):
    """Casts, by `cast(to, these)`, and multiplies as many outputs as stay in the L2 cache, then the next ones.

    The scale comes after the sum, once for each result: s * sum(x q) = sum(x (s q)).
    """
    io = weight.layout == "io"
    inputs, outputs = weight.data.shape if io else weight.data.shape[::-1]
    y_RX = np.empty((len(x_RX), outputs), x_RX.dtype) if out is None else out
    together = max(1, min(outputs, CACHED // inputs))
    float_X = scratch(workspace, (inputs * together,), x_RX)
    for first in range(0, outputs, together):
        here = slice(first, first + together)
        stored = weight.data[:, here] if io else weight.data[here]
        floats = float_X[: stored.size].reshape(stored.shape)
        cast(floats, stored)
        np.matmul(x_RX, floats if io else floats.T, out=y_RX[:, here])
    if weight.scale is not None:
        y_RX *= weight.scale
    return y_RX


def product_of_blocks(x_RX, weight, out):
    """Makes floats of as many outputs as stay in a cache, with each block's own scale, and multiplies them."""
    inputs, outputs = weight.scale.shape[1] * BLOCK, weight.outputs
    y_RX = np.empty((len(x_RX), outputs), x_RX.dtype) if out is None else out
    together = max(1, CACHED // inputs // PANEL_OUTPUTS) * PANEL_OUTPUTS
    for first in range(0, outputs, together):
        some = weight.of_outputs(slice(first, first + together))
        np.matmul(x_RX, dequantize_weight(some, x_RX.dtype).T, out=y_RX[:, first : first + together])
    return y_RX
