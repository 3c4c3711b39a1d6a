"""A map of calls and units of the block, painted brick by brick; the tightest gap for each."""

import numpy as np

# --- variation
ALIGNED = 64
END_IS_NEEDED = True
# --- end


def plan(bytes_X, first_X, end_X):
    stop_X = end_X + END_IS_NEEDED
    units_X = (bytes_X + ALIGNED - 1) // ALIGNED
    taken = np.zeros((units_X.sum() + 1, stop_X.max()), bool)
    offset_X = np.zeros_like(bytes_X)
    for x in sorted(range(len(bytes_X)), key=lambda x: (-bytes_X[x], first_X[x] - stop_X[x])):
        at = tightest(taken[:, first_X[x] : stop_X[x]].any(axis=1), units_X[x])
        taken[at : at + units_X[x], first_X[x] : stop_X[x]] = True
        offset_X[x] = at * ALIGNED
    return offset_X


def tightest(is_taken, units):
    """Where the smallest gap begins that holds so many units; what is above all counts as the largest."""
    edges = np.flatnonzero(np.diff(np.concatenate([[True], is_taken, [True]])))
    begins, ends = edges[::2], edges[1::2]
    sizes = ends - begins
    return begins[np.argmin(np.where(sizes >= units, sizes, len(is_taken) + 1))]
