"""Softmax in place: a part of every attention."""

from __future__ import annotations

import numpy as np

from .. import scratch


def softmax(scores, workspace=None):
    """Along the last axis, in place; the maximum is taken off first, so nothing overflows."""
    of_rows = scratch(workspace, (*scores.shape[:-1], 1), scores)
    scores -= scores.max(axis=-1, keepdims=True, out=of_rows)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True, out=of_rows)
    return scores
