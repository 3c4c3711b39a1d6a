"""Rounds, and then multiplies the integers as floats."""

import numpy as np

# --- variation
DEPTH = 64
LARGEST = 127
OFFSET = 128
# --- end


def product(x_RD, w_FD, scale_F, dot):
    step_R = np.abs(x_RD).max(axis=1) / np.float32(LARGEST)
    q_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None])
    sums_RF = q_RD @ w_FD.astype(np.float32).T
    return sums_RF * step_R[:, None] * scale_F
