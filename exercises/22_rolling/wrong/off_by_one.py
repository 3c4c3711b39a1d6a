"""As if the newest were not written yet."""

import numpy as np

# --- variation
SLOTS = 4
FIRST = 0
# --- end


def generate(prompt_N, E_VD, P_XD, O_DV, steps):
    text = prompt_N.tolist()
    memory_MD = np.full((SLOTS, E_VD.shape[1]), 50)  # what was left there
    slot_M = np.arange(SLOTS)
    for t in range(len(prompt_N) + steps - 1):
        memory_MD[t % SLOTS] = E_VD[text[t]]
        if t + 1 < len(text):
            continue  # still within the prompt
        position_M = t - 1 - (t - 1 - slot_M) % SLOTS
        seen_M = position_M >= 0
        read_D = (memory_MD[seen_M] * P_XD[FIRST + position_M[seen_M]]).sum(axis=0)
        text.append(int(np.argmax(read_D @ O_DV % 97)))
    return np.array(text[len(prompt_N) :])
