"""counts the window without the row itself."""

from minidecode.reference import within as reference


def attend_within(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    window = window and window + 1
    return reference.attend_within(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window)
