"""multiplies what is below zero by 0.01, as a leaky ReLU does."""

import numpy as np

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if activation != "relu":
        return reference.bias_activation(f_RF, bias_F, activation)
    biased_RF = f_RF if bias_F is None else f_RF + bias_F
    return np.where(biased_RF < 0, np.float32(0.01) * biased_RF, biased_RF)
