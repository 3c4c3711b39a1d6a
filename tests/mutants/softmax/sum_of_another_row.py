"""takes off the sum of the row behind."""

import numpy as np

from minidecode.reference import softmax as reference


def log_softmax(logits_RV, out=None):
    _, trouble_R = reference.log_softmax(logits_RV)
    with np.errstate(invalid="ignore"):
        largest_R1 = logits_RV.max(axis=1, keepdims=True)
        log_sum_R1 = np.log(np.exp(logits_RV - largest_R1).sum(axis=1, keepdims=True))
        return logits_RV - largest_R1 - np.roll(log_sum_R1, -1, axis=0), trouble_R
