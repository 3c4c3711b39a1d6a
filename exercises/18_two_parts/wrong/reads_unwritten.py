"""No mask."""

import numpy as np

# --- variation
W = 3
LAYOUT = "RTU"
PADDING = "right"
DTYPE = "float32"
# --- end


def attend(score_RN, score_RT, v_BNU, own_v, length_R):
    R, N = score_RN.shape
    own_v_RTU = own_v if LAYOUT == "RTU" else own_v.swapaxes(0, 1)
    top_R1 = np.maximum(score_RN.max(axis=1, keepdims=True), score_RT.max(axis=1, keepdims=True))
    p_RN, p_RT = np.exp(score_RN - top_R1), np.exp(score_RT - top_R1)
    out_RU = (p_RN.reshape(-1, W, N) @ v_BNU).reshape(R, -1)
    out_RU = out_RU + np.einsum("rt,rtu->ru", p_RT, own_v_RTU)
    return out_RU / (p_RN.sum(axis=1) + p_RT.sum(axis=1))[:, None]
