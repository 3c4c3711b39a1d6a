"""multiplies each column by a scale of a row, and each row by one of a column."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    sums_RX = q_RX.astype(np.float64) @ weight.data.T.astype(np.float64)
    (rows, outputs) = sums_RX.shape
    of_columns_X, of_rows_R = np.resize(scale_R, outputs), np.resize(weight.scale, rows)
    y_RX = (sums_RX * (of_rows_R[:, None] * of_columns_X)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
