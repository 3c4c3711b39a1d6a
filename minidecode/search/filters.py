"""The filter before sampling that is no op: it rules tokens out (-inf) and leaves the other scores as they are."""

from __future__ import annotations

import math

import numpy as np

AT_ONCE = 4096  # scores that are compared together: what NumPy notes of them is as many bytes


def min_p_filter(scores_RV: np.ndarray, p: float, least: int = 1) -> np.ndarray:
    """Tokens at least p times as likely as the likeliest; `least` of them stay in any case.

    softmax(s)_v < p max softmax(s) just where s_v < max s + log p: no probability need be known. Scores may be logits
    or log-probabilities.
    """
    below = math.log(p) if p > 0 else -math.inf
    for scores_V in scores_RV:
        stays = np.argsort(-scores_V, kind="stable")[:least] if least > 1 else slice(0)  # the likeliest stays anyway
        kept_X = scores_V[stays].copy()
        threshold = float(scores_V.max()) + below
        for first in range(0, len(scores_V), AT_ONCE):
            part_V = scores_V[first : first + AT_ONCE]
            part_V[part_V < threshold] = -np.inf
        scores_V[stays] = kept_X
    return scores_RV
