"""Takes for text what does not equal PAD."""

import numpy as np

# --- variation
N = 3
PADDING = "right"
PAD = 0
# --- end


def ban(tokens_RM, used_R, V):
    banned_RV = np.zeros((len(tokens_RM), V), bool)
    for r in range(len(used_R)):
        text = tokens_RM[r][tokens_RM[r] != PAD]
        used = len(text)
        if used >= N:
            windows = np.lib.stride_tricks.sliding_window_view(text, N)
            repeats = (windows[:, :-1] == text[used - N + 1 :]).all(axis=1)
            banned_RV[r, windows[repeats, -1]] = True
    return banned_RV
