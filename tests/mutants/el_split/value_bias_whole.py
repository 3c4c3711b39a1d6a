"""adds the value bias whole, where it comes with the prompt's share of the softmax."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    none_GU = np.zeros_like(b_v_GU)
    a_RX = reference.attend_el_split(
        q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, none_GU, k_RGTK, v_RGTU, begin_R, end_R, scale
    )
    return a_RX + reference.repeat_for_query_heads(b_v_GU, q_RHK.shape[1]).reshape(-1)
