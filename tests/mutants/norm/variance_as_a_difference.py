"""computes the variance as E[x^2] - mean^2 in float32, which loses all digits on rows far from zero."""

import numpy as np

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    x_RD = x_RD + (0 if y_RD is None else y_RD) + (0 if bias_D is None else bias_D)
    mean_R1 = x_RD.mean(axis=1, keepdims=True)
    variance_R1 = np.mean(x_RD * x_RD, axis=1, keepdims=True) - mean_R1 * mean_R1
    return x_RD, (x_RD - mean_R1) / np.sqrt(np.maximum(variance_R1, 0) + norm.eps) * norm.gain_D + norm.bias_D
