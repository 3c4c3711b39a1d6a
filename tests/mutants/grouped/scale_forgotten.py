"""takes the scores as they are, without the scale: the weights are too sharp."""

from minidecode.reference import grouped


def attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, out=None):
    return grouped.attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, 1.0)
