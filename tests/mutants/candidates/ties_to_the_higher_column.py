"""takes the higher column first where scores are equal, as a sort does that is turned round."""

import numpy as np

from minidecode.reference.candidates import candidates_in_columns


def top_candidates(scores_BX, C, out=None):
    index_BC = np.argsort(scores_BX, axis=1, kind="stable")[:, ::-1][:, :C].copy()
    return candidates_in_columns(scores_BX, index_BC, np.isnan(scores_BX).any(axis=1), out)
