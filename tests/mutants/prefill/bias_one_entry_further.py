"""reads the bucket of one position further back: bucket off by one."""

from dataclasses import replace

from minidecode.reference import prefill


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    wrong = bias and replace(bias, zero=bias.zero + 1)
    return prefill.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, wrong)
