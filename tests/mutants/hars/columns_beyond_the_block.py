"""divides the first 128 columns, as many as a block has threads, into beams and tokens; the others stay columns."""

import numpy as np

from minidecode.reference import hars as reference


def hars_candidates(logits_RV, base_BW, C, out=None):
    best_BC, parent_BC, token_BC = reference.hars_candidates(logits_RV, base_BW, C)
    is_left = np.arange(C) >= 128
    column_BC = parent_BC * logits_RV.shape[1] + token_BC
    return best_BC, np.where(is_left, 0, parent_BC), np.where(is_left, column_BC, token_BC)
