"""leaves out what the texts have scored so far."""

import numpy as np

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C, out=None):
    return reference.hars_candidates(logits_RV, np.zeros_like(base_BW), C)
