"""Begins with the positive numbers."""

import numpy as np

# --- variation
BITS = 32
DTYPE = "float32"
SIDE = "reach"
# --- end


def threshold(p_R, weigh):
    R, half = len(p_R), 2 ** (BITS - 1)

    def score_of(key_R):
        bits_R = np.where(key_R < 0, key_R ^ (half - 1), key_R)
        return bits_R.astype(f"int{BITS}").view(DTYPE)

    total_R = weigh(np.full(R, -np.inf if SIDE == "reach" else np.inf, DTYPE))
    low_R, high_R = np.zeros(R, np.int64), np.full(R, half - 1)
    for _ in range(BITS):
        middle_R = (low_R + high_R + 1) // 2
        weight_R = weigh(score_of(middle_R))
        kept_R = weight_R if SIDE == "reach" else total_R - weight_R
        enough_R = kept_R >= p_R * total_R
        low_R, high_R = np.where(enough_R, middle_R, low_R), np.where(enough_R, high_R, middle_R - 1)
    return score_of(low_R)
