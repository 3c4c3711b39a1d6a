"""Attention over a memory of its own for each row, compiled for the CPU."""

from __future__ import annotations

from . import attention


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    """Each position is read once for the query heads that share it; only what a row sees is scored at all."""
    return attention.attend_parts(q_RHK, [(k_RGMK, v_RGMU, begin_R, end_R)], scale, out)
