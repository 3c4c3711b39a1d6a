"""sorts all sentences at once, each 2,000 below the one before: by float32, scores 1e-4 apart are equal down there."""

import numpy as np

from minidecode.reference.candidates import candidates_in_columns


def top_candidates(scores_BX, C, out=None):
    B, X = scores_BX.shape
    lowered_BX = scores_BX - 2000 * np.arange(B, dtype=scores_BX.dtype)[:, None]
    sentence_BX = np.repeat(np.arange(B), X)
    order_BX = np.lexsort((-lowered_BX.reshape(-1), sentence_BX)).reshape(B, X) % X
    return candidates_in_columns(scores_BX, order_BX[:, :C], np.isnan(scores_BX).any(axis=1), out)
