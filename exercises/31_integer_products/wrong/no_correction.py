"""Leaves the offset in the sums."""

import numpy as np

# --- variation
DEPTH = 64
LARGEST = 127
OFFSET = 128
# --- end


def product(x_RD, w_FD, scale_F, dot):
    step_R = np.abs(x_RD).max(axis=1) / np.float32(LARGEST)
    q_RD = np.rint(x_RD / np.where(step_R > 0, step_R, 1)[:, None])
    u_RD = (q_RD + OFFSET).astype(np.uint8)
    sums_RF = np.zeros((len(x_RD), len(w_FD)), np.int32)
    for begin in range(0, x_RD.shape[1], DEPTH):
        piece = slice(begin, begin + DEPTH)
        sums_RF += dot(u_RD[:, piece], w_FD[:, piece])
    return sums_RF * step_R[:, None] * scale_F
