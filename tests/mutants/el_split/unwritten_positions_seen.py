"""looks at positions that no step has written yet."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    whole_R = np.full_like(end_R, k_RGTK.shape[2])
    return reference.attend_el_split(
        q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, whole_R, scale
    )
