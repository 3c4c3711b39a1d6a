"""Cuts the groups the other way."""

import numpy as np

# --- variation
W = 3
GROUPING = "interleaved"
ROOM = 44
# --- end

C = 2 * W


def survivors(logits_V):
    """The tokens of a beam that reach its rough threshold."""
    groups_XX = logits_V.reshape(-1, C).T if GROUPING != "interleaved" else logits_V.reshape(C, -1)
    kept_X = np.flatnonzero(logits_V >= groups_XX.max(axis=1).min())
    return kept_X


def search(logits_RV, base_BW, rank):
    B, V = len(base_BW), logits_RV.shape[1]
    score_BC, index_BC = np.empty((B, C), logits_RV.dtype), np.empty((B, C), np.int64)
    for b in range(B):
        scores, indices = [], []
        for w, logits_V in enumerate(logits_RV[b * W : b * W + W]):
            kept_X = survivors(logits_V)
            largest = logits_V.max()
            log_sum = largest + np.log(np.exp(logits_V - largest).sum())
            scores.append(logits_V[kept_X] - log_sum + base_BW[b, w])
            indices.append(w * V + kept_X)
        score_X, index_X = np.concatenate(scores), np.concatenate(indices)
        best = np.arange(0)
        for begin in range(0, len(score_X), ROOM - C):
            lot = np.concatenate([best, np.arange(begin, min(begin + ROOM - C, len(score_X)))])
            best = lot[rank(score_X[lot])[:C]]
        score_BC[b], index_BC[b] = score_X[best], index_X[best]
    return score_BC, index_BC
