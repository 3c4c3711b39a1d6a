"""Row by row and head by head, over what is written alone."""

import numpy as np

# --- variation
LAYOUT = "RGMK"
PADDING = "right"
DTYPE = "float32"
# --- end


def memory_of(whole, r, length):
    whole_MGK = whole[r] if LAYOUT == "RMGK" else whole[r].swapaxes(0, 1)
    return whole_MGK[:length] if PADDING == "right" else whole_MGK[len(whole_MGK) - length :]


def attend(q_RHK, keys, values, length_R):
    out_RHU = np.empty_like(q_RHK)
    for r, length in enumerate(length_R):
        k_TGK, v_TGU = memory_of(keys, r, length), memory_of(values, r, length)
        groups = np.repeat(np.arange(k_TGK.shape[1]), q_RHK.shape[1] // k_TGK.shape[1])
        for h, g in enumerate(groups):
            score_T = k_TGK[:, g] @ (q_RHK[r, h] / np.sqrt(len(q_RHK[r, h])).astype(DTYPE))
            p_T = np.exp(score_T - score_T.max())
            out_RHU[r, h] = p_T @ v_TGU[:, g] / p_T.sum()
    return out_RHU
