"""takes the results of a sentence for beams of heads, where they are heads of beams."""

from minidecode.reference import el as reference


def attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale, out=None):
    a_RX = reference.attend_el(q_RHK, h_BND, begin_B, w_k_GKD, b_k_GK, w_v_GUD, b_v_GU, scale)
    (R, H, _), B, U = q_RHK.shape, len(h_BND), w_v_GUD.shape[1]
    return a_RX.reshape(B, H, R // B, U).transpose(0, 2, 1, 3).reshape(R, H * U)
