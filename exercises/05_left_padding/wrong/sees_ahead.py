"""The columns behind the prompts are seen before anything is said there."""

import numpy as np

# --- variation
FIRST = 0
PAD = 0
# --- end


def generate(tokens_RN, length_R, E_VD, P_XD, O_DV, steps):
    R, N = tokens_RN.shape
    begin_R, column_M = N - length_R, np.arange(N + steps)
    tokens_RM = np.full((R, N + steps), PAD)
    tokens_RM[:, :N] = tokens_RN
    mask_RM = column_M >= begin_R[:, None]
    position_RM = FIRST + np.maximum(column_M - begin_R[:, None], 0)
    for step in range(steps):
        seen_RMD = E_VD[tokens_RM] * P_XD[position_RM] * mask_RM[:, :, None]
        score_RV = seen_RMD.sum(axis=1) @ O_DV % 97
        tokens_RM[:, N + step] = score_RV.argmax(axis=1)
    return tokens_RM[:, N:]
