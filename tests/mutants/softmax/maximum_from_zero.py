"""starts the maximum at 0, so that all exponentials of a row far below may be 0."""

import numpy as np

from minidecode.ops import FINE, NOT_A_NUMBER


def log_softmax(logits_RV, out=None):
    with np.errstate(all="ignore"):
        below_RV = logits_RV - np.maximum(logits_RV.max(axis=1, keepdims=True), 0)
        scores_RV = below_RV - np.log(np.exp(below_RV).sum(axis=1, keepdims=True))
    return scores_RV, np.where(np.isnan(scores_RV).any(axis=1), NOT_A_NUMBER, FINE)
