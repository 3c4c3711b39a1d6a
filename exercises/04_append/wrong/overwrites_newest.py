"""Where the newest lies."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    rows = np.arange(len(length_R))
    for layer, h_RTD in enumerate(h_LRTD):
        k_RK, v_RK = project(layer, h_RTD[rows, length_R])
        at_R = length_R - 1
        place = (layer, rows, at_R) if LAYOUT == "LRMK" else (layer, at_R, rows)
        keys[place] = k_RK
        values[place] = v_RK
