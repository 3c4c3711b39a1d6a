"""looks at what the row before it has generated."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    before_R = np.arange(len(q_RHK)) - 1
    own = (a[before_R] for a in (k_RGTK, v_RGTU, begin_R, end_R))
    return reference.attend_el_split(q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, *own, scale)
