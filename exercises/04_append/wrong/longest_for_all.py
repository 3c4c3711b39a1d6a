"""All where the longest text goes on."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    rows, longest = np.arange(len(length_R)), length_R.max()
    for layer, h_RTD in enumerate(h_LRTD):
        k_RK, v_RK = project(layer, h_RTD[:, longest])
        place = (layer, rows, longest) if LAYOUT == "LRMK" else (layer, longest, rows)
        keys[place] = k_RK
        values[place] = v_RK
