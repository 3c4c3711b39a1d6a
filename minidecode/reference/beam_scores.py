"""Log-probabilities become scores of whole texts."""

from __future__ import annotations

import numpy as np

from . import scores_to_change


def add_beam_scores_naive(scores_RV, running_R, out=None):
    """The running scores as a table as large as the others, and a new array."""
    scores_RV = scores_to_change(scores_RV, out)
    scores_RV[...] = scores_RV + np.repeat(running_R[:, None], scores_RV.shape[1], axis=1)
    return scores_RV


def add_beam_scores(scores_RV, running_R, out=None):
    """Adds each running text's score to its row, in one pass."""
    return np.add(scores_RV, running_R[:, None], out=scores_RV if out is None else out)
