"""rounds what lies half-way between two whole numbers up; the processor and NumPy round it to the even one."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    _, scale_R = reference.round_rows(x_RX, weight.x_bits)
    largest = np.float32(reference.largest_integer(weight.x_bits))
    with np.errstate(all="ignore"):
        inverse_R = np.where(scale_R * largest > reference.LEAST, largest / (scale_R * largest), 0)
        q_RX = np.nan_to_num(np.floor(x_RX * inverse_R[:, None].astype(np.float32) + np.float32(0.5)))
    sums_RX = q_RX.astype(np.float64) @ weight.data.T.astype(np.float64)
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
