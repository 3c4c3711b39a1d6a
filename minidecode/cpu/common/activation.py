"""Activations on vectors, and zeros to add where there is no bias: pieces of the ops that end in an activation."""

from __future__ import annotations

import functools

import numpy as np

from ...reference.activation import (
    GELU,
    GELU_10,
    GELU_NEW,
    LAPLACE,
    LAPLACE_DEVIATION,
    LAPLACE_MEAN,
    MISH,
    QUICK_GELU,
    RELU,
    RELU2,
    SILU,
    TANH,
)
from .jit import njit
from .vector_exp import exp

F = np.float32


@functools.lru_cache(maxsize=64)
def no_bias(outputs):
    """Zeros to add where there is no bias: code is compiled for arrays alone, and adding them costs nothing."""
    zeros_X = np.zeros(outputs, F)
    zeros_X.flags.writeable = False  # as all weights are: code is compiled for one kind alone
    return zeros_X


# A division does not check for zero, which would keep a loop off vectors; a product and a sum round once.
VECTORS = {"cache": True, "error_model": "numpy", "fastmath": {"contract"}}
ERF_END, ERF_CUT, HALF = F(4), F(1.125), F(0.5)  # from the end on, a float32 of erf is 1
# Fitted: x P(x^2) / Q(x^2), with errors of at most 2e-8 before rounding. All coefficients are positive, so that nothing
# cancels. Beyond this end, tanh is 1 but for a rounding.
TANH_ENDS = F(9)
MEAN, PER_DEVIATION = F(LAPLACE_MEAN), F(1 / (LAPLACE_DEVIATION * np.sqrt(2)))


@njit(**VECTORS)
def erf(x):
    """Off by less than one unit in the last place of a float32; by 1.1 where a machine has no fused multiply-add.

    x + x r(x^2 - 1/2) below 1.125, 1 - p(|x| - 1.125)^2 from there on: what is added to x, and taken from 1, is small,
    so that its errors are, too. Both are computed, so that the loop runs on vectors. Fitted by benchmarks/fit_erf.py.
    """
    s, size = x * x - HALF, abs(x)
    r = ((F(6.95911294e-05) * s - F(0.000563793466)) * s + F(0.00348397647)) * s - F(0.018283831)
    r = ((r * s + F(0.0794095844)) * s - F(0.28107217)) * s - F(0.0345312543)
    near = x + x * r
    u = (ERF_END if size > ERF_END else size) - ERF_CUT
    p = ((F(-6.02654218e-05) * u + F(0.000847781543)) * u - F(0.00464214012)) * u + F(0.0108172083)
    p = ((p * u - F(0.000288210082)) * u - F(0.0455892235)) * u + F(0.0363380946)
    p = ((p * u + F(0.196352229)) * u - F(0.476341754)) * u + F(0.334083498)
    far = F(1) - p * p
    return near if not size >= ERF_CUT else -far if x < F(0) else far  # near: also of NaN


@njit(**VECTORS)
def tanh(x):
    x = min(max(x, -TANH_ENDS), TANH_ENDS)
    t = x * x
    p = (((F(1.318411e-08) * t + F(2.0471749e-05)) * t + F(0.0034865772)) * t + F(0.13373193)) * t + F(0.99999988)
    q = (((F(7.7026169e-07) * t + F(0.00032713774)) * t + F(0.025841961)) * t + F(0.46706492)) * t + F(1)
    return x * p / q


@njit(inline="always", **VECTORS)
def activate(f_X, bias_X, code, out_X):
    """act(f + bias), for the activation of that number. A loop for each, so that each runs on vectors.

    Always part of its caller: where that hands over one array as `f` and `out`, the loops must see that they are one.
    As two that overlap, they would be taken number by number.
    """
    if code == GELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + erf(x * F(np.sqrt(0.5))))
    elif code == GELU_NEW:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(np.sqrt(2 / np.pi)) * (x + F(0.044715) * x * x * x)))
    elif code == QUICK_GELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(0.851) * x))
    elif code == SILU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * x * (F(1) + tanh(F(0.5) * x))
    elif code == RELU:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0) if x < F(0) else x
    elif code == TANH:
        for i in range(len(f_X)):
            out_X[i] = tanh(f_X[i] + bias_X[i])
    elif code == GELU_10:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            x = F(0.5) * x * (F(1) + erf(x * F(np.sqrt(0.5))))
            out_X[i] = F(10) if x > F(10) else x
    elif code == MISH:  # see reference/activation.py
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            e = exp(F(20) if x > F(20) else x)
            t = e * (e + F(2))
            out_X[i] = x * (t / (t + F(2)))
    elif code == RELU2:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            x = F(0) if x < F(0) else x
            out_X[i] = x * x
    elif code == LAPLACE:
        for i in range(len(f_X)):
            x = f_X[i] + bias_X[i]
            out_X[i] = F(0.5) * (F(1) + erf((x - MEAN) * PER_DEVIATION))
    else:  # PLAIN
        for i in range(len(f_X)):
            out_X[i] = f_X[i] + bias_X[i]
