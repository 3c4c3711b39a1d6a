"""takes one softmax over all heads and beams that share a product."""

from minidecode.reference import el as reference
from minidecode.reference.common.softmax import softmax


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    (R, H, _), B = q_RHK.shape, len(h_BND)
    scores_RHN = reference.scores_of_hidden(q_RHK, h_BND, begin_B, w_k_GKD, scale)
    weights_BX = softmax(scores_RHN.reshape(B, -1))
    a_RHU = reference.values_of_hidden(weights_BX.reshape(scores_RHN.shape), h_BND, w_v_GUD)
    return (a_RHU + reference.repeat_for_query_heads(b_v_GU, H)).reshape(R, -1)
