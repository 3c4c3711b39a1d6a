"""scales the position bias too, where scores get it after their scale."""

from dataclasses import replace

import numpy as np

from minidecode.reference import prefill


def attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window=None, bias=None, out=None):
    wrong = bias and replace(bias, bias_XHP=np.float32(scale) * bias.bias_XHP)
    return prefill.attend_prefill(q_RHK, k_XGK, v_XGU, q_offsets_X, k_offsets_X, scale, causal, window, wrong)
