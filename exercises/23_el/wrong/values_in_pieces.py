"""Builds values, 64 positions at a time, and forgets them. Keys are not built."""

import numpy as np

# --- variation
LAYOUT = "oi"
PADDING = "right"
# --- end


def attend(q_RHK, h_BND, length_B, w_k_DD, b_k_D, w_v_DD, b_v_D):
    (R, H, K), (B, N, D) = q_RHK.shape, h_BND.shape
    out_RD = np.empty((R, D), h_BND.dtype)
    w_k_XX, w_v_XX = (w_k_DD, w_v_DD) if LAYOUT == "oi" else (w_k_DD.T, w_v_DD.T)
    for b, length in enumerate(length_B):
        rows = slice(b * (R // B), (b + 1) * (R // B))
        is_pad = np.arange(N) >= length if PADDING == "right" else np.arange(N) < N - length
        for h in range(H):
            mine = slice(h * K, h * K + K)
            s_WN = q_RHK[rows, h] @ w_k_XX[mine] @ h_BND[b].T
            s_WN /= np.sqrt(K)
            s_WN[:, is_pad] = -np.inf
            p_WN = np.exp(s_WN - s_WN.max(axis=1, keepdims=True))
            p_WN /= p_WN.sum(axis=1, keepdims=True)
            out_RD[rows, mine] = 0
            for n in range(0, N, 64):
                v_XK = h_BND[b, n : n + 64] @ w_v_XX[mine].T + b_v_D[mine]
                out_RD[rows, mine] += p_WN[:, n : n + 64] @ v_XK
    return out_RD
