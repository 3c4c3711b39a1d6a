"""A dictionary of what followed each context, as fairseq had it."""

import numpy as np

# --- variation
N = 3
PADDING = "right"
PAD = 0
# --- end


def ban(tokens_RM, used_R, V):
    banned_RV = np.zeros((len(tokens_RM), V), bool)
    for r, used in enumerate(used_R.tolist()):
        text = tokens_RM[r].tolist()
        text = text[len(text) - used :] if PADDING == "left" else text[:used]
        followers = {}
        for i in range(used - N + 1):
            followers.setdefault(tuple(text[i : i + N - 1]), []).append(text[i + N - 1])
        for token in followers.get(tuple(text[max(0, used - N + 1) :]), []):
            banned_RV[r, token] = True
    return banned_RV
