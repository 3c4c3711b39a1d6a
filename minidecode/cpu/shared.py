"""Attention over a cache that the beams of a sentence share (FastSeq, section 4.1.2), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable
from . import split


@capturable
def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """Equation 4: the split cache's attention where no row has generated anything."""
    R, nothing = len(q_RHK), np.zeros(len(q_RHK), np.int64)
    k_RGTK, v_RGTU = (np.empty((R, x.shape[1], 0, x.shape[3]), x.dtype) for x in (k_BGNK, v_BGNU))
    return split.attend_split(q_RHK, k_BGNK, v_BGNU, begin_B, k_RGTK, v_RGTU, nothing, nothing, scale, None, out)
