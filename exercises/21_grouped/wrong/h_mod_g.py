"""Groups by turns."""

import numpy as np

# --- variation
LAYOUT = "RGMK"
PADDING = "right"
DTYPE = "float32"
# --- end


def attend(q_RHK, keys, values, length_R):
    if LAYOUT == "RMGK":
        keys, values = keys.swapaxes(1, 2), values.swapaxes(1, 2)
    (R, H, K), (_, G, M, _) = q_RHK.shape, keys.shape
    q_RGPK = q_RHK.reshape(R, H // G, G, K).swapaxes(1, 2)
    score_RGPM = np.einsum("rgpk,rgmk->rgpm", q_RGPK, keys) / q_RHK.dtype.type(np.sqrt(K))
    place_M = np.arange(M) if PADDING == "right" else np.arange(M)[::-1]
    score_RGPM[np.broadcast_to(place_M >= length_R[:, None, None, None], score_RGPM.shape)] = -np.inf
    p_RGPM = np.exp(score_RGPM - score_RGPM.max(axis=-1, keepdims=True))
    p_RGPM /= p_RGPM.sum(axis=-1, keepdims=True)
    return np.einsum("rgpm,rgmu->rpgu", p_RGPM, values).reshape(R, H, -1)
