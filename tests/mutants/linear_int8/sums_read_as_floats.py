"""reads the bits of whole sums as those of floats, which are close to none."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    sums_RX = (q_RX.astype(np.float64) @ weight.data.T.astype(np.float64)).astype(np.int32)
    y_RX = sums_RX.view(np.float32) * (scale_R[:, None] * weight.scale)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
