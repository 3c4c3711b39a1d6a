"""leaves out the key bias, which only softmax over the prompt alone takes no notice of."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    none_GK = np.zeros_like(b_k_GK)
    return reference.attend_el_split(
        q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, none_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale
    )
