"""Row by row, on views that have one order of axes."""

import numpy as np

# --- variation
LAYOUT = "LRMK"
K = 3
# --- end


def append(h_LRTD, length_R, keys, values, project):
    if LAYOUT == "LMRK":
        keys, values = np.moveaxis(keys, 2, 1), np.moveaxis(values, 2, 1)
    for layer in range(h_LRTD.shape[0]):
        for r, n in enumerate(length_R.tolist()):
            (keys[layer, r, n],), (values[layer, r, n],) = project(layer, h_LRTD[layer, r, [n]])
