"""Halves the distance between two scores."""

import numpy as np

# --- variation
BITS = 32
DTYPE = "float32"
SIDE = "reach"
# --- end


def threshold(p_R, weigh):
    R = len(p_R)
    total_R = weigh(np.full(R, -np.inf if SIDE == "reach" else np.inf, DTYPE))
    low_R, high_R = np.full(R, -10_000.0), np.full(R, 10_000.0)
    for _ in range(BITS):
        middle_R = (low_R + high_R) / 2
        weight_R = weigh(middle_R.astype(DTYPE))
        kept_R = weight_R if SIDE == "reach" else total_R - weight_R
        enough_R = kept_R >= p_R * total_R
        low_R, high_R = np.where(enough_R, middle_R, low_R), np.where(enough_R, high_R, middle_R)
    return low_R.astype(DTYPE)
