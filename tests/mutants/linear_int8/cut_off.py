"""cuts the digits off that a whole number cannot hold; it should round to the nearest."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    _, scale_R = reference.round_rows(x_RX, weight.x_bits)
    with np.errstate(all="ignore"):
        q_RX = np.nan_to_num(np.trunc(x_RX / scale_R[:, None]), posinf=0, neginf=0)
    sums_RX = q_RX.astype(np.float64) @ weight.data.T.astype(np.float64)
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
