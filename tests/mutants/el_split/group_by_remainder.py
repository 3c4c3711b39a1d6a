"""gives head h the weights of group h % G: groups are blocks of neighbouring heads."""

import numpy as np

from minidecode.reference import el_split as reference


def attend_el_split(
    q_RHK, prompt_h_BND, prompt_begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, k_RGTK, v_RGTU, begin_R, end_R, scale,
    out=None,
):  # fmt: skip
    heads = np.arange(q_RHK.shape[1]) % len(w_k_GKD)
    weights = (w[heads] for w in (w_k_GKD, b_k_GK, w_v_GUD, b_v_GU))
    k_RGTK, v_RGTU = (np.repeat(own, len(heads) // own.shape[1], axis=1) for own in (k_RGTK, v_RGTU))
    return reference.attend_el_split(
        q_RHK, prompt_h_BND, prompt_begin_B, *weights, k_RGTK, v_RGTU, begin_R, end_R, scale
    )
