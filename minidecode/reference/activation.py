"""Bias and activation of the feed-forward layer."""

from __future__ import annotations

import math

import numpy as np

from . import scratch

# Of `laplace`: sqrt(1/2) and sqrt(1/(4 pi)), with the digits that transformers gives.
LAPLACE_MEAN, LAPLACE_DEVIATION = 0.707107, 0.282095

# Each is applied to f in place. Most are f/2 (1 + g(f)) with a g that goes from -1 to 1: the share of f that is let
# through. g is worked out in room of its own.


def gelu(f, workspace):
    """f times the probability that a standard normal is below f, exactly: g = erf(f / sqrt 2)."""
    g = np.multiply(f, math.sqrt(0.5), out=scratch(workspace, f.shape, f))
    _let_through(f, _erf(g, out=g))


def _erf(f, out=None):
    from scipy.special import erf  # loaded only for models that use it: NumPy has no erf

    return erf(f, out=out)


def gelu_new(f, workspace):
    """GPT-2's approximation of GELU: g = tanh(sqrt(2/pi) (f + 0.044715 f^3))."""
    g = np.multiply(f, 0.044715, out=scratch(workspace, f.shape, f))
    with np.errstate(over="ignore"):  # tanh of infinity is 1, and right
        g *= f
        g *= f
    g += f
    g *= math.sqrt(2.0 / math.pi)
    _let_through(f, np.tanh(g, out=g))


def quick_gelu(f, workspace):
    """f times the logistic function of 1.702 f: g = tanh(0.851 f)."""
    g = np.multiply(f, 0.851, out=scratch(workspace, f.shape, f))
    _let_through(f, np.tanh(g, out=g))


def silu(f, workspace):
    """f times the logistic function: g = tanh(f / 2), which does not overflow for large negative f."""
    g = np.multiply(f, 0.5, out=scratch(workspace, f.shape, f))
    _let_through(f, np.tanh(g, out=g))


def gelu_10(f, workspace):
    """GELU, but at most 10: I-BERT's. GELU is never below -0.17, so its other bound of -10 changes nothing."""
    gelu(f, workspace)
    np.minimum(f, 10.0, out=f)


def mish(f, workspace):
    """f times tanh(softplus(f)), which is t / (t + 2) with t = e (e + 2) and e = exp(f).

    So nothing cancels where e is small. Above 20 the share is 1 to all digits of a float64, and e may overflow.
    """
    e = np.minimum(f, 20.0, out=scratch(workspace, f.shape, f))
    np.exp(e, out=e)
    t = np.add(e, 2.0, out=scratch(workspace, f.shape, f))
    t *= e
    t /= np.add(t, 2.0, out=e)
    f *= t


def laplace(f, workspace):
    """The probability that a normal variable of mean LAPLACE_MEAN and deviation LAPLACE_DEVIATION is below f (Mega)."""
    f -= LAPLACE_MEAN
    f *= 1.0 / (LAPLACE_DEVIATION * math.sqrt(2.0))
    _erf(f, out=f)
    f += 1.0
    f *= 0.5


def _let_through(f, g):
    g += 1.0
    f *= 0.5
    f *= g


def relu(f, workspace):
    np.maximum(f, 0.0, out=f)


def relu2(f, workspace):
    """The square of relu (Primer)."""
    relu(f, workspace)
    np.square(f, out=f)


def tanh(f, workspace):
    np.tanh(f, out=f)


def identity(f, workspace):
    """Leaves f as it is."""


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_python": gelu,
    "gelu_10": gelu_10,
    "gelu_new": gelu_new,
    "gelu_pytorch_tanh": gelu_new,
    "gelu_fast": gelu_new,
    "quick_gelu": quick_gelu,
    "relu": relu,
    "silu": silu,
    "swish": silu,
    "tanh": tanh,
    "mish": mish,
    "relu2": relu2,
    "laplace": laplace,
    "linear": identity,
}


# Compiled code takes no text: it knows an activation by its number. PLAIN is none, or `linear`.
PLAIN, GELU, GELU_NEW, QUICK_GELU, RELU, SILU, TANH, GELU_10, MISH, RELU2, LAPLACE = range(11)
_NUMBERS = {
    identity: PLAIN, gelu: GELU, gelu_new: GELU_NEW, quick_gelu: QUICK_GELU, relu: RELU, silu: SILU, tanh: TANH,
    gelu_10: GELU_10, mish: MISH, relu2: RELU2, laplace: LAPLACE,
}  # fmt: skip


def code_of(activation):
    """The number of an activation's name, or of None."""
    return PLAIN if activation is None else _NUMBERS[ACTIVATIONS[activation]]


# The equations of ops.py as they stand there, each operation into an array of its own.
NAIVE = {
    gelu: lambda f: 0.5 * f * (1.0 + _erf(f / math.sqrt(2.0))),
    gelu_new: lambda f: 0.5 * f * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (f + 0.044715 * (f * f * f)))),
    quick_gelu: lambda f: f / (1.0 + np.exp(-1.702 * f)),
    relu: lambda f: np.maximum(f, 0.0),
    silu: lambda f: f / (1.0 + np.exp(-f)),
    tanh: np.tanh,
    gelu_10: lambda f: np.clip(0.5 * f * (1.0 + _erf(f / math.sqrt(2.0))), -10.0, 10.0),
    mish: lambda f: f * np.tanh(np.log1p(np.exp(f))),
    relu2: lambda f: np.square(np.maximum(f, 0.0)),
    laplace: lambda f: 0.5 * (1.0 + _erf((f - LAPLACE_MEAN) / (LAPLACE_DEVIATION * math.sqrt(2.0)))),
    identity: lambda f: f,
}


def bias_activation_naive(f_RF, bias_F, activation, out=None):
    """The composition that a fused kernel replaces: a pass over memory for each operation."""
    biased_RF = f_RF if bias_F is None else f_RF + bias_F
    with np.errstate(over="ignore"):  # what is infinite in between is so for good: 1/inf is 0, tanh(inf) is 1
        activated_RF = NAIVE[ACTIVATIONS[activation]](biased_RF)
    if out is None:
        return activated_RF
    out[...] = activated_RF
    return out


def add_bias(x_RX, bias_X, out=None):
    return np.add(x_RX, bias_X, out=out)


def gated_activation_naive(f_RX, activation, out=None):
    """Two arrays in place of pairs, and an operation at a time."""
    gate_RF, up_RF = f_RX[:, 0::2].copy(), f_RX[:, 1::2].copy()
    return np.multiply(bias_activation_naive(gate_RF, None, activation), up_RF, out=out)


def gated_activation(f_RX, activation, out=None, *, workspace=None):
    """The gates are copied to where the result goes, which is all that is written."""
    gated_RF = np.add(f_RX[:, 0::2], 0, out=out)
    ACTIVATIONS[activation](gated_RF, workspace)
    gated_RF *= f_RX[:, 1::2]
    return gated_RF


def bias_activation(f_RF, bias_F, activation, out=None, *, workspace=None):
    """Add, then apply in place."""
    biased_RF = np.add(f_RF, 0 if bias_F is None else bias_F, out=out)
    ACTIVATIONS[activation](biased_RF, workspace)
    return biased_RF
