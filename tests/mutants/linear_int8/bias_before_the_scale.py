"""adds the bias to the whole numbers, so that it is scaled too."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    sums_RX = q_RX.astype(np.float64) @ weight.data.T.astype(np.float64)
    sums_RX = sums_RX if bias_X is None else sums_RX + bias_X
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, None, activation, add_to)
