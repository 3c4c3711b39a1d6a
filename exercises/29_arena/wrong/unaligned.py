"""One right behind the other."""

import numpy as np

# --- variation
ALIGNED = 64
END_IS_NEEDED = True
# --- end


def plan(bytes_X, first_X, end_X):
    offset_X = np.zeros(len(bytes_X), np.int64)
    last_X = end_X if END_IS_NEEDED else end_X - 1
    placed = []
    for x in np.argsort(-bytes_X, kind="stable").tolist():
        at = 0
        for y in sorted(placed, key=lambda y: offset_X[y]):
            if first_X[x] <= last_X[y] and first_X[y] <= last_X[x]:
                if at + bytes_X[x] <= offset_X[y]:
                    break
                at = max(at, offset_X[y] + bytes_X[y])
        offset_X[x] = at
        placed.append(x)
    return offset_X


def aligned(size):
    """As many bytes as reach to the next place where an array may begin."""
    return -(-size // ALIGNED) * ALIGNED
