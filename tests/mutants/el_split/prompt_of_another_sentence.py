"""takes row r for one of sentence r % B: the beams of a sentence are neighbours."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    sentence_R = np.arange(len(q_RHK)) % len(prompt_h_BND)
    return reference.attend_el_split(
        q_RHK, prompt_h_BND[sentence_R], prompt_begin_B[sentence_R], w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU,
        begin_R, end_R, scale,
    )  # fmt: skip
