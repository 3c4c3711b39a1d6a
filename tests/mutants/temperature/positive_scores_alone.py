"""divides what is above 0 alone, as a penalty would."""

import numpy as np


def apply_temperature(scores_RV, temperature, out=None):
    scores_RV[...] = np.where(scores_RV > 0, scores_RV / np.float32(temperature), scores_RV)
    return scores_RV
