"""sums over whole groups of 32 columns only: what is left over does not count for mean and variance."""

import numpy as np

from minidecode.reference import norm as reference


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    if norm.bias_D is None:  # the mistake is one of layer norms alone
        return reference.residual_norm(x_RD, y_RD, bias_D, norm, out)
    x_RD = x_RD + (0 if y_RD is None else y_RD) + (0 if bias_D is None else bias_D)
    whole = max(1, x_RD.shape[1] // 32 * 32)
    mean_R1 = x_RD[:, :whole].mean(axis=1, keepdims=True)
    variance_R1 = np.mean((x_RD[:, :whole] - mean_R1) ** 2, axis=1, keepdims=True)
    return x_RD, (x_RD - mean_R1) / np.sqrt(variance_R1 + norm.eps) * norm.gain_D + norm.bias_D
