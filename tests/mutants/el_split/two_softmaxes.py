"""takes a softmax over each part and the mean of the two results."""

import numpy as np

from minidecode.reference.el import attend_el
from minidecode.reference.grouped import attend


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    seen_B = prompt_begin_B < prompt_h_BND.shape[1]
    first_B = np.where(seen_B, prompt_begin_B, 0)
    prompt_RX = attend_el(q_RHK, prompt_h_BND, first_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale)
    own_RX = attend(q_RHK, k_RGTK, v_RGTU, begin_R, end_R, scale)
    seen_R = np.repeat(seen_B, len(q_RHK) // len(seen_B))
    return np.where(seen_R[:, None], (prompt_RX + own_RX) / 2, own_RX)
