"""divides the squared deviations by D - 1: that is the variance of a sample, not of the row."""

import numpy as np

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    x_RD = x_RD + (0 if y_RD is None else y_RD) + (0 if bias_D is None else bias_D)
    centred_RD = x_RD - x_RD.mean(axis=1, keepdims=True)
    variance_R1 = (centred_RD**2).sum(axis=1, keepdims=True) / np.float32(max(1, x_RD.shape[1] - 1))
    return x_RD, centred_RD / np.sqrt(variance_R1 + norm.eps) * norm.gain_D + norm.bias_D
