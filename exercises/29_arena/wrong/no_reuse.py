"""A buffer for each."""

import numpy as np

# --- variation
ALIGNED = 64
END_IS_NEEDED = True
# --- end


def plan(bytes_X, first_X, end_X):
    size_X = -(-bytes_X // ALIGNED) * ALIGNED
    return np.cumsum(size_X) - size_X
