"""computes the logistic function as e^x / (1 + e^x), which is inf / inf for large x."""

import numpy as np

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if activation not in ("silu", "swish"):
        return reference.bias_activation(f_RF, bias_F, activation)
    biased_RF = f_RF if bias_F is None else f_RF + bias_F
    with np.errstate(over="ignore", invalid="ignore"):
        power_RF = np.exp(biased_RF)
        return biased_RF * (power_RF / (1 + power_RF))
