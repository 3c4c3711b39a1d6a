"""Returns 0 and 1 where booleans are due."""

import numpy as np

# --- variation
N = 3
PADDING = "right"
PAD = 0
# --- end


def ban(tokens_RM, used_R, V):
    banned_RV = np.zeros((len(tokens_RM), V), np.int64)
    for r, used in enumerate(used_R):
        width = tokens_RM.shape[1]
        text = tokens_RM[r, width - used :] if PADDING == "left" else tokens_RM[r, :used]
        if used >= N:
            windows = np.lib.stride_tricks.sliding_window_view(text, N)
            repeats = (windows[:, :-1] == text[used - N + 1 :]).all(axis=1)
            banned_RV[r, windows[repeats, -1]] = True
    return banned_RV
