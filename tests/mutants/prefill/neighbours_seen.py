"""takes all sentences for one: without offsets, rows see the keys of their neighbours."""

from minidecode.reference import prefill as reference


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    ends = slice(None, None, max(1, len(q_offsets_X) - 1))
    return reference.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X[ends], k_offsets_X[ends], scale, causal, window)
