"""Bias and activation of the feed-forward layer."""

from __future__ import annotations

import math

import numpy as np


def gelu(f):
    """f times the probability that a standard normal is below f, exactly (through erf)."""
    from scipy.special import erf  # loaded only for models that use it: NumPy has no erf

    return f * 0.5 * (1.0 + erf(f * math.sqrt(0.5)))


def gelu_new(f):
    """GPT-2's approximation of GELU by tanh."""
    return f * 0.5 * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (f + 0.044715 * f * f * f)))


def quick_gelu(f):
    """f times the logistic function of 1.702 f."""
    return f * 0.5 * (1.0 + np.tanh(0.851 * f))


def relu(f):
    return np.maximum(f, 0.0)


def silu(f):
    """f times the logistic function, written with tanh so that large negative f do not overflow."""
    return f * 0.5 * (1.0 + np.tanh(0.5 * f))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": gelu_new,
    "gelu_fast": gelu_new,
    "quick_gelu": quick_gelu,
    "relu": relu,
    "silu": silu,
    "swish": silu,
    "tanh": np.tanh,
}


def add_bias(x_RX, bias_X, out=None):
    return np.add(x_RX, bias_X, out=out)


def bias_activation(f_RF, bias_F, activation, out=None):
    """Add, then apply."""
    biased_RF = f_RF if bias_F is None else f_RF + bias_F
    result_RF = ACTIVATIONS[activation](biased_RF)
    if out is None:
        return result_RF
    out[...] = result_RF
    return out
