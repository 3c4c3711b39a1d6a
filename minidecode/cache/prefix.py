"""Sources that stand in front of the texts of a forward pass, in the same layers: their rows see each other (UniLM)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Prefix:
    """Which rows are of sources: of each sentence the first ones. pick_R: which; None: all rows are."""

    offsets_X: np.ndarray  # where each sentence's source begins among the rows of sources
    pick_R: np.ndarray | None


def attend_prompt(ops, q_RHK, k_RGK, v_RGU, offsets_X, heads, prefix: Prefix | None = None):
    """Attention of a prompt's rows. Text rows: causal. Source rows: full, to the whole source.

    A target behind its source sees both. Where there is one, all rows are computed as causal first; then the source's
    rows are replaced.
    """
    if prefix is not None and prefix.pick_R is None:
        return ops.attend_prefill(q_RHK, k_RGK, v_RGU, offsets_X, offsets_X, heads.scale, False, None, **heads.biases)
    offsets = offsets_X, offsets_X
    a_RX = ops.attend_prefill(q_RHK, k_RGK, v_RGU, *offsets, heads.scale, True, heads.window, **heads.biases)
    if prefix is not None:
        source = [ops.gather_rows(rows, prefix.pick_R) for rows in (q_RHK, k_RGK, v_RGU)]
        offsets = prefix.offsets_X, prefix.offsets_X
        a_RX[prefix.pick_R] = ops.attend_prefill(*source, *offsets, heads.scale, False, None, **heads.biases)
    return a_RX
