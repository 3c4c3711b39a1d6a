"""adds the score so far of the beam before it."""

import numpy as np

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C, out=None):
    return reference.hars_candidates(logits_RV, np.roll(base_BW, 1, axis=1), C)
