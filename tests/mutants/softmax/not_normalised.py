"""takes the maximum off, and no sum."""

import numpy as np

from minidecode.reference import softmax as reference


def log_softmax(logits_RV, out=None):
    scores_RV, trouble_R = reference.log_softmax(logits_RV)
    with np.errstate(invalid="ignore"):
        below_RV = logits_RV - logits_RV.max(axis=1, keepdims=True)
    return np.where(trouble_R[:, None] > 0, scores_RV, below_RV), trouble_R
