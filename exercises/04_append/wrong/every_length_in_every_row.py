"""A slice where pairs are due."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    for layer, h_RTD in enumerate(h_LRTD):
        k_RK, v_RK = project(layer, h_RTD[np.arange(len(length_R)), length_R])
        place = (layer, slice(None), length_R) if LAYOUT == "LRMK" else (layer, length_R)
        keys[place] = k_RK
        values[place] = v_RK
