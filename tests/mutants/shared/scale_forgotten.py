"""takes the scores as they are, without the scale: the weights are too sharp."""

from minidecode.reference import shared


def attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, scale, out=None):
    return shared.attend_shared(q_RHK, k_BGNK, v_BGNU, begin_B, 1.0)
