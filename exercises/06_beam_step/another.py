"""Sentence by sentence, candidate by candidate."""

import heapq

import numpy as np

# --- variation
EOS = 2
ALPHA = 1.0
PARENTS = "in sentence"
# --- end


def step(score_BW, log_p_BWV, length):
    B, W, V = log_p_BWV.shape
    running, finished_BC = [], np.full((B, 2 * W), -np.inf, np.float32)
    for b in range(B):
        first = b * W if PARENTS == "in batch" else 0
        totals = ((score_BW[b, w] + log_p_BWV[b, w, t], first + w, t) for w in range(W) for t in range(V))
        candidates = heapq.nlargest(2 * W, totals)
        for c, (score, _, token) in enumerate(candidates[:W]):
            if token == EOS:
                finished_BC[b, c] = score / length**ALPHA
        running.append([c for c in candidates if c[2] != EOS][:W])
    parent_BW, token_BW, next_BW = (np.array([[c[k] for c in row] for row in running]) for k in (1, 2, 0))
    return parent_BW, token_BW, next_BW, finished_BC
