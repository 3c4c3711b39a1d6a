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
    _half_times_one_plus(f, _erf(g, g, workspace))


# NumPy has no erf. This is x P(x^2) / Q(x^2), fitted for x up to ERF_END, beyond which a float32 of erf is 1 or -1: off
# by at most 2e-8 of erf before it is rounded. All coefficients are positive, so that nothing cancels.
ERF_END = 3.92
ERF_P = (2.046722522954943e-06, 0.00028483993004937275, 0.00377104646347498, 0.05276471838495956, 0.19055481197235352,
         1.1283791454953125)  # fmt: skip
ERF_Q = (3.8054782612218166e-05, 0.001163550201254561, 0.014980146032304619, 0.11416715196309586, 0.5022075347528886,
         1.0)  # fmt: skip
ERF_AT_A_TIME = 16384  # numbers; their four arrays of float64 stay in a core's cache


def _erf(x, out=None, workspace=None):
    """erf of a float32, off by less than one unit in its last place; of a float64 as the C library has it."""
    out = np.empty(x.shape, x.dtype) if out is None else out
    if x.dtype != np.float32:  # seldom: number by number takes ten times as long
        out[...] = np.frompyfunc(math.erf, 1, 1)(x)
        return out
    if not out.flags.c_contiguous:
        out[...] = _erf(x, workspace=workspace)
        return out
    x_X, y_X = x.reshape(-1), out.reshape(-1)
    parts = scratch(workspace, (4, min(ERF_AT_A_TIME, x_X.size)), x, np.float64)
    for first in range(0, x_X.size, ERF_AT_A_TIME):
        part_X = x_X[first : first + ERF_AT_A_TIME]
        x_64, t, p, q = parts[:, : part_X.size]
        np.minimum(part_X, ERF_END, out=x_64)
        np.maximum(x_64, -ERF_END, out=x_64)
        np.multiply(x_64, x_64, out=t)
        _polynomial(ERF_P, t, out=p)
        _polynomial(ERF_Q, t, out=q)
        p *= x_64
        np.divide(p, q, out=y_X[first : first + ERF_AT_A_TIME], casting="same_kind")
    return out


def _polynomial(coefficients, t, out):
    np.multiply(t, coefficients[0], out=out)
    for c in coefficients[1:-1]:
        out += c
        out *= t
    out += coefficients[-1]


def gelu_new(f, workspace):
    """GPT-2's approximation of GELU: g = tanh(sqrt(2/pi) (f + 0.044715 f^3))."""
    g = np.multiply(f, 0.044715, out=scratch(workspace, f.shape, f))
    with np.errstate(over="ignore"):  # tanh of infinity is 1, and right
        g *= f
        g *= f
    g += f
    g *= math.sqrt(2.0 / math.pi)
    _half_times_one_plus(f, np.tanh(g, out=g))


def quick_gelu(f, workspace):
    """f times the logistic function of 1.702 f: g = tanh(0.851 f)."""
    g = np.multiply(f, 0.851, out=scratch(workspace, f.shape, f))
    _half_times_one_plus(f, np.tanh(g, out=g))


def silu(f, workspace):
    """f times the logistic function: g = tanh(f / 2), which does not overflow for large negative f."""
    g = np.multiply(f, 0.5, out=scratch(workspace, f.shape, f))
    _half_times_one_plus(f, np.tanh(g, out=g))


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
    _erf(f, f, workspace)
    f += 1.0
    f *= 0.5


def _half_times_one_plus(f, g):
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


GATED = 16  # is added to an activation's number where columns are pairs of gate and up
PAIRS = "gated-"  # and is in front of its name


def is_gated(activation):
    """Whether columns are pairs of gate and up, of which one result comes."""
    return activation is not None and activation.startswith(PAIRS)


def activation_code(activation):
    """The number of an activation's name, or of None."""
    if is_gated(activation):
        return GATED + activation_code(activation.removeprefix(PAIRS))
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


def bias_activation_naive(f_RX, bias_X, activation, out=None):
    """The composition that a fused kernel replaces: a pass over memory for each operation."""
    biased_RX = f_RX if bias_X is None else f_RX + bias_X
    if is_gated(activation):
        gate_RF = bias_activation_naive(biased_RX[:, 0::2], None, activation.removeprefix(PAIRS))
        return np.multiply(gate_RF, biased_RX[:, 1::2], out=out)
    with np.errstate(over="ignore"):  # what is infinite in between is so for good: 1/inf is 0, tanh(inf) is 1
        y_RX = NAIVE[ACTIVATIONS[activation]](biased_RX)
    if out is None:
        return y_RX
    out[...] = y_RX
    return out


def add_bias(x_RX, bias_X, out=None):
    return np.add(x_RX, bias_X, out=out)


def bias_activation(f_RX, bias_X, activation, out=None, *, workspace=None):
    """Add, then apply in place; what is up has room of its own until it is multiplied."""
    if is_gated(activation):
        gate_F, up_F = (None, None) if bias_X is None else (bias_X[0::2], bias_X[1::2])
        y_RF = bias_activation(f_RX[:, 0::2], gate_F, activation.removeprefix(PAIRS), out, workspace=workspace)
        up_RF = f_RX[:, 1::2]
        if up_F is not None:
            up_RF = np.add(up_RF, up_F, out=scratch(workspace, y_RF.shape, f_RX))
        y_RF *= up_RF
        return y_RF
    y_RX = np.add(f_RX, 0 if bias_X is None else bias_X, out=out)
    ACTIVATIONS[activation](y_RX, workspace)
    return y_RX
