"""leaves out what is behind the last whole group of 32 columns."""

import numpy as np


def apply_temperature(scores_RV, temperature, out=None):
    scores_RV[:, : scores_RV.shape[1] // 32 * 32] /= np.float32(temperature)
    return scores_RV
