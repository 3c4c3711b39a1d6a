"""has room for 2C survivors of a beam, and drops those that come later."""

import numpy as np

from minidecode.reference.candidates import group_maxima
from minidecode.reference.hars import hars_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    (B, W), V = base_BW.shape, logits_RV.shape[1]
    lost_RV = np.zeros(logits_RV.shape, bool)
    for lost_V, logits_V in zip(lost_RV, logits_RV, strict=True):
        lost_V[np.flatnonzero(logits_V >= group_maxima(logits_V, C).min())[2 * C :]] = True
    best_BX, parent_BX, token_BX = hars_candidates_naive(logits_RV, base_BW, W * V)
    best_BX[np.take_along_axis(lost_RV.reshape(B, W * V), parent_BX * V + token_BX, axis=1)] = -np.inf
    order_BC = np.argsort(-best_BX, axis=1, kind="stable")[:, :C]
    return tuple(np.take_along_axis(array_BX, order_BC, axis=1) for array_BX in (best_BX, parent_BX, token_BX))
