"""The parent's number for its whole past."""

import numpy as np

# --- variation
BEAMS = 4
MIX = 3
# --- end


def search(E_VD, O_DV, memory_WTD):
    V, steps = len(E_VD), memory_WTD.shape[1]
    tokens_WT = np.zeros((BEAMS, steps + 1), int)
    source_WT = np.tile(np.arange(BEAMS)[:, None], steps)
    score_W = np.full(BEAMS, -(10**9))
    score_W[0] = 0  # at the start all beams are one
    for t in range(steps):
        memory_WTD[:, t] = E_VD[tokens_WT[:, t]]
        past_WTD = memory_WTD[source_WT[:, : t + 1], np.arange(t + 1)]
        read_WD = np.einsum("t,wtd->wd", 1 + np.arange(t + 1) % MIX, past_WTD)
        total_WV = score_W[:, None] - read_WD @ O_DV % 97
        best_W = np.argsort(-total_WV, axis=None, kind="stable")[:BEAMS]
        parent_W, token_W = best_W // V, best_W % V
        score_W = total_WV.reshape(-1)[best_W]
        source_WT[:, : t + 1] = parent_W[:, None]
        tokens_WT = tokens_WT[parent_W]
        tokens_WT[:, t + 1] = token_W
    return tokens_WT, score_W, source_WT
