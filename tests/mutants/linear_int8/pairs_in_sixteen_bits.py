"""adds two products of 8 bits in 16 bits, as vpmaddubsw does, which stop at 32,767: activations of 7 bits fit."""

import numpy as np

from minidecode.reference import linear_int8 as reference


def linear_int8(x_RX, weight, bias_X=None, activation=None, add_to=None):
    q_RX, scale_R = reference.round_rows(x_RX, weight.x_bits)
    odd = x_RX.shape[1] % 2
    u_RX = np.pad(q_RX.astype(np.int64) + 128, ((0, 0), (0, odd)))
    w_XX = np.pad(weight.data.astype(np.int64), ((0, 0), (0, odd)))
    sums_RX = np.zeros((len(x_RX), len(w_XX)), np.int64)
    for i in range(0, w_XX.shape[1], 2):
        pair_RX = u_RX[:, i : i + 2] @ w_XX[:, i : i + 2].T
        sums_RX += pair_RX.clip(-(2**15), 2**15 - 1)
    sums_RX -= 128 * weight.data.sum(1, dtype=np.int64)
    y_RX = (sums_RX * (scale_R[:, None] * weight.scale)).astype(np.float32)
    return reference.finish_products(y_RX, bias_X, activation, add_to)
