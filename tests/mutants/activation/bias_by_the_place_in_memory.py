"""finds the bias by a number's place in memory modulo 32 columns, as if every row were a warp wide."""

import numpy as np

from minidecode.reference import activation as reference


def bias_activation(f_RF, bias_F, activation, out=None):
    if bias_F is not None:
        places = np.arange(f_RF.size).reshape(f_RF.shape) % min(32, len(bias_F))
        f_RF, bias_F = f_RF + bias_F[places], None
    return reference.bias_activation(f_RF, bias_F, activation)
