"""Layer normalisation, alone and fused with the residual."""

from __future__ import annotations

import numpy as np


def layer_norm(x_RD, norm, out=None):
    """Two passes: the mean first, then the mean squared deviation from it."""
    centred_RD = x_RD - x_RD.mean(axis=-1, keepdims=True)
    variance_R1 = np.mean(centred_RD * centred_RD, axis=-1, keepdims=True)
    normalised_RD = centred_RD / np.sqrt(variance_R1 + norm.eps)
    return np.add(normalised_RD * norm.gain_D, norm.bias_D, out=out)


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """The composition that the fused kernel replaces: add, add, normalise."""
    out_x, out_h = out or (None, None)
    x_RD = np.add(x_RD, y_RD, out=out_x)
    if bias_D is not None:
        x_RD += bias_D
    return x_RD, layer_norm(x_RD, norm, out=out_h)
