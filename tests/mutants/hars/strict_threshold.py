"""keeps of each beam what lies above its threshold, as the paper says, and not what equals it."""

import numpy as np

from minidecode.reference.candidates import group_maxima
from minidecode.reference.hars import hars_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    (B, W), V = base_BW.shape, logits_RV.shape[1]
    threshold_R1 = np.array([[group_maxima(logits_V, C).min()] for logits_V in logits_RV])
    lost_BX = (logits_RV == threshold_R1).reshape(B, W * V)
    best_BX, parent_BX, token_BX = hars_candidates_naive(logits_RV, base_BW, W * V)
    best_BX[np.take_along_axis(lost_BX, parent_BX * V + token_BX, axis=1)] = -np.inf
    order_BC = np.argsort(-best_BX, axis=1, kind="stable")[:, :C]
    return tuple(np.take_along_axis(array_BX, order_BC, axis=1) for array_BX in (best_BX, parent_BX, token_BX))
