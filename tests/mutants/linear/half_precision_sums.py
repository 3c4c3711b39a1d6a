"""adds up in float16: three digits, and infinity beyond 65,504."""

import numpy as np

from minidecode.device.low_precision import dequantize_weight


def linear(x_RX, weight):
    matrix = dequantize_weight(weight, np.dtype(np.float32))
    matrix = matrix if weight.layout == "io" else matrix.T
    total_RX = np.zeros((len(x_RX), matrix.shape[1]), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(len(matrix)):
            total_RX += (x_RX[:, i, None] * matrix[i]).astype(np.float16)
    return total_RX.astype(np.float32)
