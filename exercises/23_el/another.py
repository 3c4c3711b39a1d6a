"""All heads and beams at once, by einsum, the constant q . b_k left in."""

import numpy as np

# --- variation
LAYOUT = "oi"
PADDING = "right"
# --- end


def attend(q_RHK, h_BND, length_B, w_k_DD, b_k_D, w_v_DD, b_v_D):
    (R, H, K), (B, N, D) = q_RHK.shape, h_BND.shape
    if LAYOUT == "io":
        w_k_DD, w_v_DD = w_k_DD.T, w_v_DD.T
    q_XK = q_RHK.reshape(B, R // B, H, K)
    el_q_BXD = np.einsum("bwhk,hkd->bwhd", q_XK, w_k_DD.reshape(H, K, D)).reshape(B, -1, D)
    constant_BX = np.einsum("bwhk,hk->bwh", q_XK, b_k_D.reshape(H, K)).reshape(B, -1)
    weight_BXN = el_q_BXD @ h_BND.transpose(0, 2, 1)
    weight_BXN += constant_BX[:, :, None]
    weight_BXN *= np.asarray(K**-0.5, weight_BXN.dtype)
    position_N = np.arange(N) if PADDING == "right" else np.arange(N)[::-1]
    weight_BXN -= np.where(position_N < length_B[:, None], 0, np.inf).astype(weight_BXN.dtype)[:, None]
    weight_BXN -= weight_BXN.max(axis=2, keepdims=True)
    np.exp(weight_BXN, out=weight_BXN)
    weight_BXN /= weight_BXN.sum(axis=2, keepdims=True)
    sums_XD = (weight_BXN @ h_BND).reshape(R, H, D)
    return np.einsum("rhd,hkd->rhk", sums_XD, w_v_DD.reshape(H, K, D)).reshape(R, D) + b_v_D
