"""Products that end in bias, activation and residual: what a feed-forward layer and an output projection do, as one op.

LightSeq's products add into the residual (GEMM with beta = 1), and its kernels between two products add the bias and
apply the activation (section 2.1). Where rows are few, all of it fits behind each sum, so that no product is written
to memory for another kernel to read.
"""

from __future__ import annotations

import numpy as np

from ..device.low_precision import is_narrow, round_rows_to_float16, rounding
from . import scratch
from .activation import ACTIVATIONS, bias_activation, bias_activation_naive, is_gated
from .linear import linear, linear_naive


def linear_epilogue_naive(x_RX, weight, activation=None, add_to=None, out=None):
    """The composition: the product is written, and each operation behind it is a pass over memory."""
    y_RX = linear_naive(x_RX, weight)
    if activation is not None:
        y_RX = bias_activation_naive(y_RX, weight.bias, activation)
    elif weight.bias is not None:
        y_RX = y_RX + weight.bias
    if add_to is not None:
        return np.add(add_to, y_RX, out=add_to)
    if out is None:
        return y_RX
    out[...] = y_RX
    return out


def linear_epilogue(x_RX, weight, activation=None, add_to=None, out=None, *, workspace=None):
    """The BLAS product, and the rest in place; one that is added to an array has room of its own, and so have pairs."""
    if is_gated(activation):
        sums_RX = scratch(workspace, (len(x_RX), weight.outputs), x_RX)
        linear(x_RX, weight, None, sums_RX, workspace=workspace)
        out = out if add_to is None else scratch(workspace, add_to.shape, add_to)
        y_RF = bias_activation(sums_RX, weight.bias, activation, out, workspace=workspace)
        return y_RF if add_to is None else np.add(add_to, y_RF, out=add_to)
    if add_to is not None:
        out = scratch(workspace, add_to.shape, add_to)
    y_RX = linear(x_RX, weight, None, out, workspace=workspace)
    if weight.bias is not None:
        y_RX += weight.bias
    if activation is not None:
        ACTIVATIONS[activation](y_RX, workspace)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


@rounding
def linear_epilogue_rounded(x_RX, weight, activation=None, add_to=None, out=None, *, workspace=None):
    """What devices compute (`linear_rounded`)."""
    x_RX = round_rows_to_float16(x_RX) if is_narrow(weight) else x_RX
    return linear_epilogue(x_RX, weight, activation, add_to, out, workspace=workspace)
