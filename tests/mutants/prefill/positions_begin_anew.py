"""counts the positions of a later part from 0 again: its first query sees the first key alone."""

from itertools import pairwise

from minidecode.reference import prefill as reference


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    if causal:
        firsts = zip(k_offsets_X[:-1], pairwise(q_offsets_X), strict=True)
        kept = [k for begin, (first, end) in firsts for k in range(begin, begin + end - first)]
        k_XGK, v_XGU, k_offsets_X = k_XGK[kept], v_XGU[kept], q_offsets_X
    return reference.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window)
