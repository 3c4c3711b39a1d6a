"""takes the higher column first where scores are equal, as a sort does that is turned round."""

import numpy as np

from minidecode.reference.candidates import result_of


def top_candidates(scores_BX, C, out=None):
    index_BC = np.argsort(scores_BX, axis=1, kind="stable")[:, ::-1][:, :C].copy()
    return result_of(scores_BX, index_BC, np.isnan(scores_BX).any(axis=1), out)
