"""GEMMs that end in bias, activation and residual: the kernels of cuda/linear.py, with an epilogue.

Without an epilogue a product writes its sums, and the kernel behind it reads and writes them again, the residual with
them: a launch more, and 2*R*out*s bytes. Here the thread that holds a sum does the rest in a register.

1. A thread per result.
2. A warp per output in "oi", a block per tile of outputs in "io", which read a weight once for ROWS rows. A warp's sums
   of these rows are ended by as many of its lanes at once: an activation takes longer than all else behind a sum.
3. The same with 128-bit loads in "oi".
4. Kernels with constants, and tensor cores for weights of fewer bits than float32; of linear.py also version 5.

Floor: that of linear.py, the bytes of the weights at 2.4 TB/s. Predicted: linear.py's time, and one launch less behind
the product: 1.7 us less for each of GPT-2's activations (activation.py). Not measured.

Outputs that are pairs of gate and up are ended by a kernel behind the product (cuda/common/activation.py).
"""

from __future__ import annotations

from ..device.low_precision import rounding
from ..reference.activation import is_gated
from . import linear as products
from .common.activation import activate_pairs_of_product


@rounding
def linear_epilogue_v1(x_RX, weight, activation=None, add_to=None, out=None):
    """y = act(x W + bias), added to `add_to`, by the kernel of linear.py's version 1, a thread per result.

    The ending reads 4 bytes of bias for each result, and 4 more where it adds; otherwise as `linear_v1`.
    """
    if is_gated(activation):
        return activate_pairs_of_product(products.linear_v1(x_RX, weight), weight.bias, activation, add_to, out)
    return products.linear_v1(x_RX, weight, add_to, out, bias_X=weight.bias, activation=activation)


@rounding
def linear_epilogue_v2(x_RX, weight, activation=None, add_to=None, out=None):
    """y = act(x W + bias), added to `add_to`, by the kernels of linear.py's version 2, a warp per output.

    The ending reads 4 bytes of bias for each result, and 4 more where it adds; otherwise as `linear_v2`.
    """
    if is_gated(activation):
        return activate_pairs_of_product(products.linear_v2(x_RX, weight), weight.bias, activation, add_to, out)
    return products.linear_v2(x_RX, weight, add_to, out, bias_X=weight.bias, activation=activation)


@rounding
def linear_epilogue_v3(x_RX, weight, activation=None, add_to=None, out=None):
    """y = act(x W + bias), added to `add_to`, by the kernels of linear.py's version 3, with 128-bit loads.

    The ending reads 4 bytes of bias for each result, and 4 more where it adds; otherwise as `linear_v3`.
    """
    if is_gated(activation):
        return activate_pairs_of_product(products.linear_v3(x_RX, weight), weight.bias, activation, add_to, out)
    return products.linear_v3(x_RX, weight, add_to, out, bias_X=weight.bias, activation=activation)


@rounding
def linear_epilogue(x_RX, weight, activation=None, add_to=None, out=None, *, workspace=None):
    """y = act(x W + bias), added to `add_to`, by the kernels of linear.py's versions 4 and 5.

    The ending reads 4 bytes of bias for each result, and 4 more where it adds; otherwise as `linear`.
    """
    if is_gated(activation):
        sums_RX = products.linear(x_RX, weight, workspace=workspace)
        return activate_pairs_of_product(sums_RX, weight.bias, activation, add_to, out)
    how = {"bias_X": weight.bias, "activation": activation, "workspace": workspace}
    return products.linear(x_RX, weight, add_to, out, **how)
