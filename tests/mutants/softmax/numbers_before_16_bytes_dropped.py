"""leaves out of a row's sum what lies before its first multiple of 16 bytes."""

import numpy as np

from minidecode.reference import softmax as reference


def log_softmax(logits_RV, out=None):
    scores_RV, trouble_R = reference.log_softmax(logits_RV)
    V = logits_RV.shape[1]
    for r, scores_V in enumerate(scores_RV):
        head = -r * V % 4
        if head < V:
            with np.errstate(invalid="ignore", divide="ignore"):
                scores_V -= np.log(np.exp(scores_V[head:]).sum())
    return scores_RV, trouble_R
