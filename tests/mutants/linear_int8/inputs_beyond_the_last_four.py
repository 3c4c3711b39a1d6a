"""multiplies four inputs at a time, and leaves out those that are no whole four."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    whole = x_RX.shape[1] // 4 * 4
    sums_RX = q_RX[:, :whole].astype(np.float64) @ weight.data[:, :whole].T.astype(np.float64)
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
