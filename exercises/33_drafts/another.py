"""All texts at once: how many guesses stay, then one draw for each text."""

import numpy as np

# --- variation
ORDER = "up"
# --- end


def accepted(guess_BX, p_BXV, q_BXV, u_BX, v_BX):
    B, X = guess_BX.shape
    every_B, at_BX1 = np.arange(B), guess_BX[:, :, None]
    p_BX, q_BX = (np.take_along_axis(x_BXV, at_BX1, axis=2)[:, :, 0] for x_BXV in (p_BXV[:, :X], q_BXV))
    stays_BX = np.column_stack([u_BX * q_BX < p_BX, np.zeros(B, bool)])
    kept_B = np.argmin(stays_BX, axis=1)
    q_with_nothing_BXV = np.concatenate([q_BXV, np.zeros_like(p_BXV[:, :1])], axis=1)
    share_BV = (p_BXV - q_with_nothing_BXV).clip(0)[every_B, kept_B]
    turned_BV = share_BV[:, ::-1] if ORDER == "down" else share_BV
    sum_BV = turned_BV.cumsum(axis=1)
    due_B = v_BX[every_B, kept_B] * sum_BV[:, -1]
    place_B = (sum_BV <= due_B[:, None]).sum(axis=1)
    token_BX = np.where(np.arange(X + 1) < kept_B[:, None], np.column_stack([guess_BX, guess_BX[:, :1]]), -1)
    token_BX[every_B, kept_B] = sum_BV.shape[1] - 1 - place_B if ORDER == "down" else place_B
    return token_BX
