"""sees only the part of a causal sentence that is read now, and not what was read before it."""

from itertools import pairwise

from minidecode.reference import prefill as reference


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, out=None):
    if causal:
        lasts = zip(k_offsets_X[1:], pairwise(q_offsets_X), strict=True)
        kept = [k for last, (first, end) in lasts for k in range(last - (end - first), last)]
        k_XGK, v_XGU, k_offsets_X = k_XGK[kept], v_XGU[kept], q_offsets_X
    return reference.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window)
