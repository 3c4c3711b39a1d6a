"""looks at tokens alone that are at most 5 below the likeliest: rare ones are never drawn."""

import numpy as np

from minidecode.reference import sample as reference


def sample_tokens(scores_RV, key_RX, step_R, seed, out=None):
    near_RV = scores_RV >= scores_RV.max(axis=1, keepdims=True) - 5
    return reference.sample_tokens(np.where(near_RV, scores_RV, np.float32(-np.inf)), key_RX, step_R, seed)
