"""adds up in 16 bits, which wrap beyond 32,767: three products may be too many."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    sums_RX = q_RX.astype(np.int16) @ weight.data.T.astype(np.int16)
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
