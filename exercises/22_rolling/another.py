"""The positions that are seen are known; where they lie follows."""

import numpy as np

# --- variation
SLOTS = 4
FIRST = 0
# --- end


def generate(prompt_N, E_VD, P_XD, O_DV, steps):
    N = len(prompt_N)
    memory_MD = np.full((SLOTS, E_VD.shape[1]), 50)  # what was left there
    for p in range(N):
        memory_MD[p % SLOTS] = E_VD[prompt_N[p]]
    said_T = np.zeros(steps, int)
    for step in range(steps):
        end = N + step
        position_X = np.arange(max(0, end - SLOTS), end)
        read_D = np.einsum("xd,xd->d", memory_MD[position_X % SLOTS], P_XD[FIRST + position_X])
        said_T[step] = np.argmax(read_D @ O_DV % 97)
        memory_MD[end % SLOTS] = E_VD[said_T[step]]
    return said_T
