"""takes the bits of float16 values for whole numbers."""

import numpy as np

from minidecode.reference.el_split import attend_el_split as right


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    values = v_RGTU.view(np.uint16).astype(np.float32) if v_RGTU.dtype == np.float16 else v_RGTU
    prompt = prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU
    return right(q_RHK, *prompt, k_RGTK, values, begin_R, end_R, scale)
