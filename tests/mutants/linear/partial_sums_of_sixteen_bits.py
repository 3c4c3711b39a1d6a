"""cuts partial sums off after 16 bits, of which float32 has 24."""

import numpy as np

from minidecode.device.low_precision import dequantize_weight

TOGETHER = 8  # inputs that are added at a time


def linear(x_RX, weight):
    matrix = dequantize_weight(weight, np.dtype(np.float32))
    matrix = matrix if weight.layout == "io" else matrix.T
    sums_RX = np.zeros((len(x_RX), matrix.shape[1]), np.float32)
    for i in range(0, len(matrix), TOGETHER):
        sums_RX += x_RX[:, i : i + TOGETHER] @ matrix[i : i + TOGETHER]
        sums_RX.view(np.uint32)[...] &= np.uint32(0xFFFFFF00)
    return sums_RX
