"""Attention over a memory that the beams of a sentence share (FastSeq, section 4.1.2), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from .attention import attend_parts


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    """Equation 4, with a sentence's keys and values read once for four beams."""
    return attend_parts(q_RHK, [(k_BGNK, v_BGNU, begin_B, np.full_like(begin_B, k_BGNK.shape[2]))], scale, out)
