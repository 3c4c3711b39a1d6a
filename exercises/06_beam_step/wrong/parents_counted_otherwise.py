"""Counts parents the other way."""

import numpy as np

# --- variation
EOS = 2
ALPHA = 1.0
PARENTS = "in sentence"
# --- end


def step(score_BW, log_p_BWV, length):
    B, W, V = log_p_BWV.shape
    total_BX = (score_BW[:, :, None] + log_p_BWV).reshape(B, W * V)
    best_BC = np.argsort(-total_BX, axis=1, kind="stable")[:, : 2 * W]
    score_BC = np.take_along_axis(total_BX, best_BC, axis=1)
    parent_BC, token_BC = best_BC // V, best_BC % V
    ends_BC = token_BC == EOS
    finishes_BC = ends_BC & (np.arange(2 * W) < W)
    finished_BC = np.where(finishes_BC, score_BC / length**ALPHA, -np.inf)
    kept_BW = np.argsort(ends_BC, axis=1, kind="stable")[:, :W]
    parent_BW, token_BW, score_BW = (np.take_along_axis(a, kept_BW, axis=1) for a in (parent_BC, token_BC, score_BC))
    if PARENTS != "in batch":
        parent_BW = parent_BW + W * np.arange(B)[:, None]
    return parent_BW, token_BW, score_BW, finished_BC
