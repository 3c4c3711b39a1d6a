"""takes row r for one of sentence r % B: the beams of a sentence are neighbours."""

import numpy as np

from minidecode.reference import el as reference


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    R, B = len(q_RHK), len(h_BND)
    sentence_R = np.arange(R) % B
    weights = w_k_GKD, b_k_GK, w_v_GUD, b_v_GU
    return reference.attend_el(q_RHK, h_BND[sentence_R], begin_B[sentence_R], *weights, scale)
