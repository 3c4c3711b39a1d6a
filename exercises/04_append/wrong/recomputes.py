"""From the start, in every step."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    for layer, h_RTD in enumerate(h_LRTD):
        for r, length in enumerate(length_R):
            written = np.arange(length + 1)
            place = (layer, r, written) if LAYOUT == "LRMK" else (layer, written, r)
            keys[place], values[place] = project(layer, h_RTD[r, : length + 1])
