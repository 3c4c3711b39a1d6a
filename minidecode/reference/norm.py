"""Layer normalisation and RMS norm, and with the residual in front of them."""

from __future__ import annotations

import numpy as np


def layer_norm_naive(x_RD, norm, out=None):
    """An elementary operation at a time, each into an array of its own: the mean, then the mean squared deviation."""
    if norm.bias_D is None:
        return rms_norm_naive(x_RD, norm, out)
    x_RD = contiguous_rows(x_RD)
    centred_RD = x_RD - x_RD.mean(axis=-1, keepdims=True)
    variance_R1 = (centred_RD * centred_RD).mean(axis=-1, keepdims=True)
    scaled_RD = centred_RD / np.sqrt(variance_R1 + norm.eps) * norm.gain_D
    return np.add(scaled_RD, norm.bias_D, out=out)


def layer_norm(x_RD, norm, out=None):
    """Subtracts, divides and scales in one array; the squares are summed without being written."""
    if norm.bias_D is None:
        return rms_norm(x_RD, norm, out)
    x_RD = contiguous_rows(x_RD)
    h_RD = np.subtract(x_RD, x_RD.mean(axis=-1, keepdims=True), out=out)
    variance_R = np.einsum("rd,rd->r", h_RD, h_RD) / x_RD.dtype.type(x_RD.shape[-1])
    h_RD /= np.sqrt(variance_R + x_RD.dtype.type(norm.eps))[:, None]
    h_RD *= norm.gain_D
    h_RD += norm.bias_D
    return h_RD


def rms_norm_naive(x_RD, norm, out=None):
    """gain * x / sqrt(mean(x^2) + eps), an elementary operation at a time (Zhang and Sennrich 2019)."""
    x_RD = contiguous_rows(x_RD)
    square_R1 = (x_RD * x_RD).mean(axis=-1, keepdims=True)
    return np.multiply(x_RD / np.sqrt(square_R1 + norm.eps), norm.gain_D, out=out)


def rms_norm(x_RD, norm, out=None):
    """Divides and scales in one array, which holds the squares first: summed in pairs, for they all have one sign."""
    x_RD = contiguous_rows(x_RD)
    h_RD = np.multiply(x_RD, x_RD, out=out)
    square_R1 = h_RD.mean(axis=-1, keepdims=True)
    np.divide(x_RD, np.sqrt(square_R1 + x_RD.dtype.type(norm.eps)), out=h_RD)
    h_RD *= norm.gain_D
    return h_RD


def contiguous_rows(x_RD):
    """x, or a copy where its rows lie in pieces: their sums would not be pairwise, and long ones lose digits."""
    return x_RD if x_RD.flags.c_contiguous else x_RD.copy()


def residual_norm_naive(x_RD, y_RD, bias_D, norm, out=None):
    """The composition that a fused kernel replaces: add, add, normalise, each through arrays of its own."""
    out_x, out_h = out or (None, None)
    x_RD = _residual(x_RD, y_RD, bias_D, out_x)
    return x_RD, layer_norm_naive(x_RD, norm, out=out_h)


def residual_norm(x_RD, y_RD, bias_D, norm, out=None):
    """Two arrays are written, and no third is needed."""
    out_x, out_h = out or (None, None)
    x_RD = _residual(x_RD, y_RD, bias_D, out_x)
    return x_RD, layer_norm(x_RD, norm, out=out_h)


def _residual(x_RD, y_RD, bias_D, out):
    """x + y + bias, or x itself where there is no y."""
    if y_RD is None:
        return x_RD
    x_RD = np.add(x_RD, y_RD, out=out)
    if bias_D is not None:
        x_RD += bias_D
    return x_RD
