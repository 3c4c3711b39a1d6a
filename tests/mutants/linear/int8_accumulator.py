"""adds int8 weights up in int8, which wraps beyond 127: products of narrow numbers need a wide sum."""

import numpy as np

from minidecode.reference import linear as reference


def linear(x_RX, weight):
    if weight.scale is None or weight.scale.ndim > 1:
        return reference.linear(x_RX, weight)
    matrix = weight.data if weight.layout == "io" else weight.data.T
    total_RX = np.zeros((len(x_RX), matrix.shape[1]), np.int8)
    for i in range(len(matrix)):
        product_RX = np.rint(x_RX[:, i, None] * matrix[i].astype(np.float32)).astype(np.int64)
        total_RX += product_RX.astype(np.int8)
    return total_RX * weight.scale
