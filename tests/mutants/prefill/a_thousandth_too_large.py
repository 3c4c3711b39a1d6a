"""scales the scores by a thousandth too much."""

from minidecode.reference import prefill as reference


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    return reference.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale * 1.001, causal, window)
