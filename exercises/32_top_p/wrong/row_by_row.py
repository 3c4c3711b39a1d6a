"""Halves the range of one row after the other."""

import numpy as np

# --- variation
BITS = 32
DTYPE = "float32"
SIDE = "reach"
# --- end


def score_of(key):
    bits = key ^ (2 ** (BITS - 1) - 1) if key < 0 else key
    return np.array([bits], f"int{BITS}").view(DTYPE)[0]


def threshold(p_R, weigh):
    R, half = len(p_R), 2 ** (BITS - 1)
    total_R = weigh(np.full(R, -np.inf if SIDE == "reach" else np.inf, DTYPE))
    threshold_R = np.zeros(R, DTYPE)
    for r in range(R):
        low, high = -half, half - 1
        while low < high:
            middle = (low + high + 1) // 2
            threshold_R[r] = score_of(middle)
            weight = weigh(threshold_R)[r]
            kept = weight if SIDE == "reach" else total_R[r] - weight
            if kept >= p_R[r] * total_R[r]:
                low = middle
            else:
                high = middle - 1
        threshold_R[r] = score_of(low)
    return threshold_R
