"""has room for 2C survivors, and drops those that come later."""

import numpy as np

from minidecode.reference.candidates import candidates_in_columns, group_maxima


def top_candidates(scores_BX, C, out=None):
    index_BC = np.empty((len(scores_BX), C), np.int64)
    for b, scores_X in enumerate(scores_BX):
        kept_X = np.flatnonzero(~(scores_X < group_maxima(scores_X, C).min()))[: 2 * C]
        index_BC[b] = kept_X[np.argsort(-scores_X[kept_X], kind="stable")][:C]
    return candidates_in_columns(scores_BX, index_BC, np.isnan(scores_BX).any(axis=1), out)
