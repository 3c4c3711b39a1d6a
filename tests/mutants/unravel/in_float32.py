"""divides in float32, which cannot tell columns apart from 2**24 on."""

import numpy as np


def unravel_candidates(index_BC, V, out=None):
    parent_BC = np.floor(index_BC.astype(np.float32) / np.float32(V)).astype(np.int64)
    return parent_BC, index_BC - V * parent_BC
