"""Layer normalisation, alone and fused with the residual."""

from __future__ import annotations

import numpy as np

from . import room


def layer_norm(x_RD, norm, out=None, *, workspace=None):
    """Two passes: the mean first, then the mean squared deviation from it."""
    h_RD = np.subtract(x_RD, x_RD.mean(axis=-1, keepdims=True), out=out)
    squares_RD = np.multiply(h_RD, h_RD, out=room(workspace, h_RD.shape, h_RD))
    h_RD /= np.sqrt(squares_RD.mean(axis=-1, keepdims=True) + norm.eps)
    h_RD *= norm.gain_D
    h_RD += norm.bias_D
    return h_RD


def residual_norm_naive(x_RD, y_RD, bias_D, norm, out=None):
    """The composition that a fused kernel replaces: add, add, normalise, each through arrays of its own."""
    out_x, out_h = out or (None, None)
    x_RD = np.add(x_RD, y_RD, out=out_x)
    if bias_D is not None:
        x_RD += bias_D
    return x_RD, layer_norm(x_RD, norm, out=out_h)


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """The same in place: two arrays are written, and no third is needed."""
    out_x, h_RD = out or (None, None)
    x_RD = np.add(x_RD, y_RD, out=out_x)
    if bias_D is not None:
        x_RD += bias_D
    h_RD = np.subtract(x_RD, x_RD.mean(axis=-1, keepdims=True), out=h_RD)
    variance_R = np.einsum("rd,rd->r", h_RD, h_RD) / x_RD.dtype.type(x_RD.shape[-1])
    h_RD /= np.sqrt(variance_R + x_RD.dtype.type(norm.eps))[:, None]
    h_RD *= norm.gain_D
    h_RD += norm.bias_D
    return x_RD, h_RD
