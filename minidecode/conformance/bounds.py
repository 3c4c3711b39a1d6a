"""How far a float32 answer may lie from the oracle's: computed from the dtype, the values and how many are summed.

EPS is the relative error of one rounding in float32. A bound must hold for sums in a tree, and for those of one thread
as far as their errors are independent; and yet be narrow: a test wants it at most 32 times the error that is observed,
so that a factor of 1.001, a wrong scale or a position left out breaks it. (A plain sum of many equal numbers errs in
one direction, and is refused: sum what lies above the first of them.) Each function has an op's arguments and gives
one bound per result, of its shape.
"""

from __future__ import annotations

import math

import numpy as np

EPS = 2.0**-24


def layer_norm(x_RD, norm):
    """A mean summed by one thread is off by sqrt(D) EPS max|x|, a random walk; dividing by the spread enlarges it.

    A sum in a tree is off by log2(D) roundings, which is more where D is small.
    """
    x_RD = x_RD.astype(np.float64)
    spread_R1, normalised_RD = _normalised(x_RD, norm)
    reach_R1 = np.abs(x_RD).max(axis=1, keepdims=True)
    relative_RD = reach_R1 / spread_R1 * (1 + normalised_RD) + 2 * normalised_RD
    D = x_RD.shape[1]
    return (2 + max(math.log2(D), math.sqrt(D))) * EPS * (np.abs(norm.gain_D) * relative_RD + np.abs(norm.bias_D))


def residual_norm(x_RD, y_RD, bias_D, norm):
    """Two roundings of the sum; what they do to its norm, enlarged by the spread, on top of the norm's own bound."""
    bias_D = np.zeros(x_RD.shape[1]) if bias_D is None else bias_D
    summed_RD = x_RD.astype(np.float64) + y_RD + bias_D
    off_RD = 2 * EPS * (np.abs(x_RD) + np.abs(y_RD) + np.abs(bias_D)).astype(np.float64)
    spread_R1, normalised_RD = _normalised(summed_RD, norm)
    typical_R1 = np.sqrt((off_RD**2).mean(axis=1, keepdims=True))
    moved_RD = np.abs(norm.gain_D) * (off_RD + typical_R1 * (1 + normalised_RD)) / spread_R1
    return off_RD, layer_norm(summed_RD, norm) + moved_RD


def _normalised(x_RD, norm):
    """(standard deviation with the epsilon, |x - mean| in units of it)."""
    spread_R1 = np.sqrt(x_RD.var(axis=1, keepdims=True) + norm.eps)
    return spread_R1, np.abs(x_RD - x_RD.mean(axis=1, keepdims=True)) / spread_R1
