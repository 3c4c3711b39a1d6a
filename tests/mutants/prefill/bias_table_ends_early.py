"""gives the farthest keys the last bucket but one: its table ends one bucket early."""

from dataclasses import replace

from minidecode.reference import prefill


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    wrong = bias and replace(bias, bucket_L=bias.bucket_L[bias.bucket_L < bias.bucket_L[-1]])
    return prefill.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, wrong)
