"""One softmax over both parts, laid side by side first."""

import numpy as np

# --- variation
W = 3
LAYOUT = "RTU"
PADDING = "right"
DTYPE = "float32"
# --- end


def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    out_RU = np.empty((len(score_RN), v_BNU.shape[2]), DTYPE)
    for r, length in enumerate(length_R):
        own_v_TU = own_v[r] if LAYOUT == "RTU" else own_v[:, r]
        written = slice(length) if PADDING == "right" else slice(len(own_v_TU) - length, None)
        score_M = np.concatenate([score_RN[r], score_RT[r, written]])
        v_MU = np.concatenate([v_BNU[r // W], own_v_TU[written]])
        p_M = np.exp(score_M - score_M.max())
        out_RU[r] = p_M @ v_MU / p_M.sum()
    return out_RU
