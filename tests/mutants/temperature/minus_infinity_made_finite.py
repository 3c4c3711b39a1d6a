"""makes the lowest number there is of minus infinity, which a draw may then meet."""

import numpy as np

from minidecode.reference import temperature as reference


def apply_temperature(scores_RV, temperature, out=None):
    reference.apply_temperature(scores_RV, temperature)
    scores_RV[np.isneginf(scores_RV)] = np.finfo(np.float32).min
    return scores_RV
