"""Keeps a guess where p is at least q, and never else."""

import numpy as np

# --- variation
ORDER = "up"
# --- end


def accepted(guess_BX, p_BXV, q_BXV, u_BX, v_BX):
    def drawn(share_V, v):
        share_V = share_V[::-1] if ORDER == "down" else share_V
        sum_V = np.cumsum(share_V)
        place = int(np.argmax(sum_V > v * sum_V[-1]))
        return len(share_V) - 1 - place if ORDER == "down" else place

    B, X = guess_BX.shape
    token_BX = np.full((B, X + 1), -1)
    for b in range(B):
        for x, guess in enumerate(guess_BX[b]):
            p_V, q_V = p_BXV[b, x], q_BXV[b, x]
            if p_V[guess] >= q_V[guess]:
                token_BX[b, x] = guess
            else:
                token_BX[b, x] = drawn(np.maximum(p_V - q_V, 0), v_BX[b, x])
                break
        else:
            token_BX[b, X] = drawn(p_BXV[b, X], v_BX[b, X])
    return token_BX
