"""All at the beginning."""

import numpy as np

# --- variation
ALIGNED = 64
END_IS_NEEDED = True
# --- end


def plan(bytes_X, first_X, end_X):
    return np.zeros(len(bytes_X), np.int64)
