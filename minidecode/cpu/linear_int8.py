"""Int8 products by the processor's integer dot products (common/int8_gemm.py), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..errors import OptionError
from ..reference import linear_int8 as reference
from ..reference import scratch
from ..reference.activation import code_of
from .common.code_paths import NUMPY, ran
from .common.dot_products import GROUP, KIND
from .common.int8_gemm import multiply, pack, round_rows


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None, *, workspace=None):
    """Rows are rounded, then multiplied. A weight that was not packed when the model was loaded is packed now.

    Numbers of any other dtype than float32 go to the reference, as in cpu/activation.py.
    """
    if x_RX.dtype != np.float32:
        ran(NUMPY)
        return reference.linear_int8(x_RX, weight, bias_X, activation, add_to, out, workspace=workspace)
    check_kind(weight.x_bits)
    reference.check_inputs(x_RX)
    weight = pack(weight) if weight.layout == "oi" else weight
    (rows, inputs), outputs = x_RX.shape, weight.outputs
    y_RX = out if add_to is None else add_to
    fits = y_RX is not None and y_RX.dtype == np.float32 and y_RX.flags.c_contiguous
    sums_RX = y_RX if fits else np.empty((rows, outputs), np.float32)
    if sums_RX.size:
        ran(KIND.name)
        q_RX = scratch(workspace, (rows, -(-inputs // GROUP) * GROUP), x_RX, np.dtype(np.uint8))
        scale_R = scratch(workspace, (rows,), x_RX)
        round_rows(np.ascontiguousarray(x_RX), reference.largest_of_bits(weight.x_bits), q_RX, scale_R)
        multiply(q_RX, scale_R, weight, bias_X, code_of(activation), sums_RX, add_to is not None and fits)
    if y_RX is None or fits:
        return sums_RX
    y_RX[...] = sums_RX if add_to is None else y_RX + sums_RX
    return y_RX


def packed(weight, must):
    """The weight as `linear_int8` reads it, packed once; one whose rows stay floats, as it is.

    On a processor without the dot product it stays as it is too, unless it `must` be packed: OptionError then. So does
    one whose inputs are no whole groups, which is packed at each call; no published model has such a width.
    """
    if weight.x_bits is None:
        return weight
    if must:
        check_kind(weight.x_bits)
    return pack(weight) if KIND is not None and weight.data.shape[1] % GROUP == 0 else weight


def check_kind(x_bits):
    """Raises OptionError where the processor has no dot product for rows of so many bits."""
    if KIND is not None and x_bits <= KIND.x_bits:
        return
    if KIND is not None:
        raise OptionError(
            f"this processor's dot product ({KIND.name}) takes rows of {KIND.x_bits} bits, not {x_bits}: load with"
            " dtype='int8_dynamic7', or 'int8', which rounds weights alone"
        )
    raise OptionError(
        "this processor has no integer dot product that compiled code could use: load with dtype='int8', which rounds"
        " weights alone"
    )
