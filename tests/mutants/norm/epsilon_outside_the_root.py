"""adds the epsilon to the standard deviation instead of the variance."""

import numpy as np

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    x_RD = x_RD + (0 if y_RD is None else y_RD) + (0 if bias_D is None else bias_D)
    centred_RD = x_RD - x_RD.mean(axis=1, keepdims=True)
    spread_R1 = np.sqrt(np.mean(centred_RD**2, axis=1, keepdims=True)) + np.float32(norm.eps)
    return x_RD, centred_RD / spread_R1 * norm.gain_D + norm.bias_D
