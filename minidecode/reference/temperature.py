"""Scores divided by a temperature, before a softmax or a draw."""

from __future__ import annotations

import numpy as np

from . import scores_to_change


def apply_temperature_naive(scores_RV, temperature, out=None):
    """A new array, and a copy of it."""
    scores_RV = scores_to_change(scores_RV, out)
    scores_RV[...] = scores_RV / scores_RV.dtype.type(temperature)
    return scores_RV


def apply_temperature(scores_RV, temperature, out=None):
    """Divides by the temperature, in one pass."""
    return np.divide(scores_RV, scores_RV.dtype.type(temperature), out=scores_RV if out is None else out)
