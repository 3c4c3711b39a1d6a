"""Softmax and its logarithm."""

from __future__ import annotations

import numpy as np


def softmax(scores):
    """Along the last axis, in place; the maximum is taken off first, so nothing overflows."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def log_softmax(logits_RV, out=None):
    shifted_RV = np.subtract(logits_RV, logits_RV.max(axis=-1, keepdims=True), out=out)
    shifted_RV -= np.log(np.exp(shifted_RV).sum(axis=-1, keepdims=True))
    return shifted_RV
