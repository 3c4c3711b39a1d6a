"""GEMMs that end in bias, activation and residual, compiled for the CPU.

The product is that of cpu/linear.py, whichever way it goes; one compiled pass over its sums does the rest, while they
are still in a cache: 48 KB for 4 rows of GPT-2's feed-forward layer, against 2 to 9 MB of weights that went by.

On a GPU a sum ends in a register, and an epilogue there saves its way to memory and back. Here it does not pay. With
the ending inside of the product's loops, behind each block of outputs, the compiler made slower code of these loops
themselves, and so of `linear`: 0.33 ms instead of 0.28 for 4 rows and int8 weights of 3072 x 768 in the layout "io"
(medians of 81, one thread, weights cold, machine shared), and no faster anywhere.
"""

from __future__ import annotations

import numpy as np

from ..reference import epilogue as reference
from ..reference import scratch
from ..reference.activation import activation_code, is_gated
from . import linear as products
from .activation import bias_activation
from .common.activation import activate, no_bias
from .common.code_paths import NUMPY, count_call
from .common.jit import njit


def linear_epilogue(x_RX, weight, activation=None, add_to=None, out=None, *, workspace=None):
    """Computes in float32. Other dtypes go to the reference, as in cpu/activation.py."""
    if x_RX.dtype != np.float32:
        count_call(NUMPY)
        return reference.linear_epilogue(x_RX, weight, activation, add_to, out, workspace=workspace)
    if is_gated(activation):
        sums_RX = scratch(workspace, (len(x_RX), weight.outputs), x_RX)
        products.linear(x_RX, weight, None, sums_RX, workspace=workspace)
        out = out if add_to is None else scratch(workspace, add_to.shape, add_to)
        y_RF = bias_activation(sums_RX, weight.bias, activation, out)
        return y_RF if add_to is None else np.add(add_to, y_RF, out=add_to)
    if add_to is not None:
        out = scratch(workspace, add_to.shape, add_to)
    sums_RX = products.linear(x_RX, weight, None, out, workspace=workspace)
    bias_X = no_bias(sums_RX.shape[1]) if weight.bias is None else weight.bias
    y_RX = sums_RX if add_to is None else add_to
    _finish_sums(sums_RX, bias_X, activation_code(activation), add_to is not None, y_RX)
    return y_RX


@njit(cache=True, nogil=True)
def _finish_sums(sums_RX, bias_X, code, adds, y_RX):
    """act(sums + bias), in place; and added to y where that is another array."""
    for r in range(len(sums_RX)):
        sums_X = sums_RX[r]
        activate(sums_X, bias_X, code, sums_X)
        if adds:
            for o in range(len(sums_X)):
                y_RX[r, o] += sums_X[o]
