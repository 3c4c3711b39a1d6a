"""takes the text of the beam that has the candidate's number."""

import numpy as np


def store_finished(finished_BWM, running_BWM, slot_BW, parent_BC, token_BC, at_B, out=None):
    before_BWM = finished_BWM.copy()
    W = slot_BW.shape[1]
    for b, w in np.ndindex(slot_BW.shape):
        slot, at = slot_BW[b, w], at_B[b]
        if slot < W:
            finished_BWM[b, w, : at + 1] = before_BWM[b, slot, : at + 1]
        else:
            finished_BWM[b, w, :at] = running_BWM[b, (slot - W) % W, :at]
            finished_BWM[b, w, at] = token_BC[b, slot - W]
    return finished_BWM
