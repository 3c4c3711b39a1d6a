"""Attention over a cache of its own for each row, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..device.capture import capturable
from . import split


@capturable
def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """The split cache's attention where each row is a sentence whose prompt is empty; what no row sees is not read."""
    k_RGNK, v_RGNU = k_RGMK[:, :, :0], v_RGMU[:, :, :0]
    prompt_begin_R = np.zeros_like(begin_R)
    prompt = k_RGNK, v_RGNU, prompt_begin_R
    return split.attend_split(q_RHK, *prompt, k_RGMK, v_RGMU, begin_R, end_R, scale, bias, out)
