"""Keeps everything and hides it."""

import numpy as np

# --- variation
SLOTS = 4
FIRST = 0
# --- end


def generate(prompt_N, E_VD, P_XD, O_DV, steps):
    text = prompt_N.tolist()
    memory_MD = np.zeros((len(prompt_N) + steps, E_VD.shape[1]), int)
    for t in range(len(prompt_N) + steps - 1):
        memory_MD[t] = E_VD[text[t]]
        if t + 1 < len(text):
            continue  # still within the prompt
        position_M = np.arange(t + 1)
        seen_M = position_M > t - SLOTS
        read_D = (memory_MD[: t + 1][seen_M] * P_XD[FIRST + position_M[seen_M]]).sum(axis=0)
        text.append(int(np.argmax(read_D @ O_DV % 97)))
    return np.array(text[len(prompt_N) :])
