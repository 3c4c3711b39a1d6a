"""takes the position bias off the scores: the wrong sign."""

from dataclasses import replace

from minidecode.reference import prefill


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=-bias.bias_XHP)
    return prefill.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, wrong)
