"""looks at whole chunks of C scores only: what is left over behind the last is never seen."""

import numpy as np

from minidecode.reference.candidates import top_candidates_naive


def top_candidates(scores_BX, C, out=None):
    return top_candidates_naive(np.ascontiguousarray(scores_BX[:, : scores_BX.shape[1] // C * C]), C)
