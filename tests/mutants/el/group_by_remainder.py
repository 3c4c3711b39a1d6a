"""gives head h the weights of group h % G: groups are blocks of neighbouring heads."""

import numpy as np

from minidecode.reference import el as reference


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    heads = np.arange(q_RHK.shape[1]) % len(w_k_GKD)
    weights = (w[heads] for w in (w_k_GKD, b_k_GK, w_v_GUD, b_v_GU))
    return reference.attend_el(q_RHK, h_BND, begin_B, *weights, scale)
