"""Bias and activation of the feed-forward layer."""

from __future__ import annotations

import math

import numpy as np

from . import room

# Each is applied to f in place. Most are f/2 (1 + g(f)) with a g that goes from -1 to 1: the share of f that is let
# through. g is worked out in room of its own.


def gelu(f, workspace):
    """f times the probability that a standard normal is below f, exactly: g = erf(f / sqrt 2)."""
    from scipy.special import erf  # loaded only for models that use it: NumPy has no erf

    g = np.multiply(f, math.sqrt(0.5), out=room(workspace, f.shape, f))
    _let_through(f, erf(g, out=g))


def gelu_new(f, workspace):
    """GPT-2's approximation of GELU: g = tanh(sqrt(2/pi) (f + 0.044715 f^3))."""
    g = np.multiply(f, 0.044715, out=room(workspace, f.shape, f))
    g *= f
    g *= f
    g += f
    g *= math.sqrt(2.0 / math.pi)
    _let_through(f, np.tanh(g, out=g))


def quick_gelu(f, workspace):
    """f times the logistic function of 1.702 f: g = tanh(0.851 f)."""
    g = np.multiply(f, 0.851, out=room(workspace, f.shape, f))
    _let_through(f, np.tanh(g, out=g))


def silu(f, workspace):
    """f times the logistic function: g = tanh(f / 2), which does not overflow for large negative f."""
    g = np.multiply(f, 0.5, out=room(workspace, f.shape, f))
    _let_through(f, np.tanh(g, out=g))


def _let_through(f, g):
    g += 1.0
    f *= 0.5
    f *= g


def relu(f, workspace):
    np.maximum(f, 0.0, out=f)


def tanh(f, workspace):
    np.tanh(f, out=f)


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": gelu_new,
    "gelu_fast": gelu_new,
    "quick_gelu": quick_gelu,
    "relu": relu,
    "silu": silu,
    "swish": silu,
    "tanh": tanh,
}


def add_bias(x_RX, bias_X, out=None):
    return np.add(x_RX, bias_X, out=out)


def bias_activation(f_RF, bias_F, activation, out=None, *, workspace=None):
    """Add, then apply."""
    biased_RF = np.add(f_RF, 0 if bias_F is None else bias_F, out=out)
    ACTIVATIONS[activation](biased_RF, workspace)
    return biased_RF
