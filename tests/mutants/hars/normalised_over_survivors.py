"""computes probabilities over what was retrieved, as if the rest of the vocabulary had none."""

import numpy as np

from minidecode.reference.candidates import group_maxima
from minidecode.reference.hars import hars_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    threshold_R1 = np.array([[group_maxima(logits_V, C).min()] for logits_V in logits_RV])
    return hars_candidates_naive(np.where(logits_RV < threshold_R1, -np.inf, logits_RV), base_BW, C)
