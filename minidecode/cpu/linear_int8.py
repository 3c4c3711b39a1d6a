"""Int8 products by the processor's integer dot products (common/panel_gemm.py), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable, contiguous_array, refuse_capture
from ..reference import linear_int8 as reference
from ..reference import scratch
from ..reference.activation import activation_code, is_gated
from .activation import bias_activation
from .common.code_paths import NUMPY, SUMS_MOVE, count_call
from .common.packing import check_dot_product
from .common.panel_gemm import multiply_int8, pack_int8
from .common.tile import DOT, GROUP


@capturable
def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None, *, workspace=None):
    """Rows are rounded, then multiplied. A weight that was not packed when the model was loaded is packed now.

    Numbers of any other dtype than float32 go to the reference, as in cpu/activation.py.
    """
    if x_RX.dtype != np.float32:
        count_call(NUMPY)
        return reference.linear_int8(x_RX, weight, bias_X, activation, add_to, out, workspace=workspace)
    if is_gated(activation):
        sums_RX = linear_int8(x_RX, weight, workspace=workspace)
        y_RF = bias_activation(sums_RX, bias_X, activation, out if add_to is None else None)
        if add_to is None:
            return y_RF
        refuse_capture(SUMS_MOVE)
        return np.add(add_to, y_RF, out=add_to)
    check_dot_product(weight.x_bits)
    reference.check_number_of_inputs(x_RX)
    weight = pack_int8(weight) if weight.layout == "oi" else weight
    (rows, inputs), outputs = x_RX.shape, weight.outputs
    y_RX = out if add_to is None else add_to
    fits = y_RX is not None and y_RX.dtype == np.float32 and y_RX.flags.c_contiguous
    sums_RX = y_RX if fits else np.empty((rows, outputs), np.float32)
    if sums_RX.size:
        count_call(DOT.name)
        q_RX = scratch(workspace, (rows, -(-inputs // GROUP) * GROUP), x_RX, np.dtype(np.uint8))
        scale_R = scratch(workspace, (rows,), x_RX)
        x_RX, largest = contiguous_array(x_RX), reference.largest_integer(weight.x_bits)
        adds = fits and add_to is not None
        multiply_int8(x_RX, largest, q_RX, scale_R, weight, bias_X, activation_code(activation), sums_RX, adds)
    if y_RX is None or fits:
        return sums_RX
    refuse_capture(SUMS_MOVE)
    y_RX[...] = sums_RX if add_to is None else y_RX + sums_RX
    return y_RX
