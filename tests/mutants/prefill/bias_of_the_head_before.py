"""gives each query head the position bias of the one before it."""

from dataclasses import replace

import numpy as np

from minidecode.reference import prefill


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=np.roll(bias.bias_XHP, 1, axis=1))
    return prefill.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, wrong)
