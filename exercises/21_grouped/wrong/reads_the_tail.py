"""No mask."""

import numpy as np

# --- variation
LAYOUT = "RGMK"
PADDING = "right"
DTYPE = "float32"
# --- end


def attend(q_RHK, keys, values, length_R):
    if LAYOUT == "RMGK":
        keys, values = keys.swapaxes(1, 2), values.swapaxes(1, 2)
    (R, H, K), G = q_RHK.shape, keys.shape[1]
    q_RGPK = q_RHK.reshape(R, G, H // G, K)
    score_RGPM = np.einsum("rgpk,rgmk->rgpm", q_RGPK, keys) / q_RHK.dtype.type(np.sqrt(K))
    p_RGPM = np.exp(score_RGPM - score_RGPM.max(axis=-1, keepdims=True))
    p_RGPM /= p_RGPM.sum(axis=-1, keepdims=True)
    return np.einsum("rgpm,rgmu->rgpu", p_RGPM, values).reshape(R, H, -1)
