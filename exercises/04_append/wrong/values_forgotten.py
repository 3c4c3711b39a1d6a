"""Keys alone."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    rows = np.arange(len(length_R))
    for layer, h_RTD in enumerate(h_LRTD):
        k_RK, _ = project(layer, h_RTD[rows, length_R])
        place = (layer, rows, length_R) if LAYOUT == "LRMK" else (layer, length_R, rows)
        keys[place] = k_RK
