"""Products of int8 weights and rows that are rounded to integers as they come (dynamic quantization)."""

from __future__ import annotations

import numpy as np

from ..device.low_precision import unpack_panels
from ..errors import OptionError
from .activation import ACTIVATIONS, bias_activation, bias_activation_naive, is_gated

MOST_INPUTS = 66_000  # beyond, a sum of bytes times int8 could need more than 32 bits
LEAST = np.float32(1e-35)  # rows whose numbers are all below it count as zeros: 127 divided by them would overflow
CACHED = 2**17  # weights that are cast together: half a megabyte of float32, which stays in the L2 cache
EXACT = 2**24 // 127**2  # products of int8 whose sum float32 holds exactly, in whatever order they are added


def linear_int8_naive(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None):
    """Integers are cast to 32 bits and multiplied as such; NumPy has no fast product of integers."""
    check_number_of_inputs(x_RX)
    q_RX, scale_R = round_rows(x_RX, weight.x_bits)
    w_XX = unpack_panels(weight).data[:, : x_RX.shape[1]].astype(np.int32)
    sums_RX = np.matmul(q_RX.astype(np.int32), w_XX.T)
    y_RX = sums_RX.astype(np.float32) * (scale_R[:, None] * weight.scale)
    if activation is not None:
        y_RX = bias_activation_naive(y_RX, bias_X, activation)
    elif bias_X is not None:
        y_RX = y_RX + bias_X
    if add_to is not None:
        return np.add(add_to, y_RX, out=add_to)
    if out is None:
        return y_RX
    out[...] = y_RX
    return out


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None, out=None, *, workspace=None):
    """Products of whole numbers by the BLAS, whose float32 sums are exact as long as they are short: some inputs at a
    time.

    The sums of those pieces are added in int32. Blocks of outputs are cast as in reference/linear.py.
    """
    check_number_of_inputs(x_RX)
    q_RX, scale_R = round_rows(x_RX, weight.x_bits)
    weight = unpack_panels(weight)
    (R, inputs), outputs = x_RX.shape, weight.outputs
    has_room = out is not None and add_to is None and not is_gated(activation)  # pairs are twice as many
    y_RX = out if has_room else np.empty((R, outputs), np.float32)
    piece = min(inputs, EXACT)
    together = max(1, min(outputs, CACHED // max(piece, 1)))
    for first in range(0, outputs, together):
        here = slice(first, first + together)
        sums_RX = np.zeros((R, len(weight.data[here])), np.int32)
        for begin in range(0, inputs, EXACT):
            these = slice(begin, min(begin + EXACT, inputs))
            sums_RX += np.matmul(q_RX[:, these], weight.data[here, these].astype(np.float32).T).astype(np.int32)
        y_RX[:, here] = sums_RX * (scale_R[:, None] * weight.scale[here])
    if is_gated(activation):
        y_RX = bias_activation(y_RX, bias_X, activation, out if add_to is None else None, workspace=workspace)
        return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)
    return finish_products(y_RX, bias_X, activation, add_to, workspace)


def finish_products(y_RX, bias_X, activation, add_to, workspace=None):
    """What products become, in place: bias, activation, residual."""
    if bias_X is not None:
        y_RX += bias_X
    if activation is not None:
        ACTIVATIONS[activation](y_RX, workspace)
    return y_RX if add_to is None else np.add(add_to, y_RX, out=add_to)


def round_rows(x_RX, x_bits):
    """(q_RX, scale_R): x = scale * q but for the rounding, q integers in float32.

    The scale of a row with a number that is not finite is NaN, and its q are zeros.
    """
    largest = np.float32(largest_integer(x_bits))
    most_R = np.abs(x_RX).max(axis=1, initial=0)
    is_finite_R = np.isfinite(most_R)
    with np.errstate(divide="ignore", over="ignore"):
        inverse_R = np.where(is_finite_R & (most_R > LEAST), largest / most_R, np.float32(0))
    q_RX = np.rint(np.where(is_finite_R[:, None], x_RX, 0) * inverse_R[:, None])
    return q_RX, np.where(is_finite_R, most_R / largest, np.float32(np.nan))


def largest_integer(bits):
    """127 of 8 bits, 63 of 7; what is below its negative is left out, so that the range is not lopsided."""
    return 2 ** (bits - 1) - 1


def check_number_of_inputs(x_RX):
    """Raises OptionError where sums of 32 bits could overflow."""
    if x_RX.shape[1] > MOST_INPUTS:
        raise OptionError(
            f"linear_int8 adds up at most {MOST_INPUTS:,} inputs in 32 bits, and here are {x_RX.shape[1]:,}: load with"
            " dtype='int8', whose sums are floats"
        )
