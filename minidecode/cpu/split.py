"""Attention over a shared prompt and over what each beam has generated (FastSeq, 4.1.1), compiled for the CPU."""

from __future__ import annotations

import numpy as np

from .attention import attend_parts


def attend_split(q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, begin_R, end_R, scale, out=None):
    """Equation 3, with the prompt's keys and values read once for four beams."""
    prompt_end_B, T = np.full_like(prompt_begin_B, prompt_k_BGNK.shape[2]), int(end_R.max())
    prompt = (prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, prompt_end_B)
    return attend_parts(q_RHK, [prompt, (k_RGTK[:, :, :T], v_RGTU[:, :, :T], begin_R, end_R)], scale, out)
