"""divides the prompt's scores by the square root of the hidden states' width instead of a head's."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    shrink = np.float32((q_RHK.shape[2] / prompt_h_BND.shape[2]) ** 0.5)
    return reference.attend_el_split(
        q_RHK, prompt_h_BND, prompt_begin_B, shrink * w_k_GKD, shrink * b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU,
        begin_R, end_R, scale,
    )  # fmt: skip
