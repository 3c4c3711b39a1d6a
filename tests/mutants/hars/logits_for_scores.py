"""takes logits for scores, and leaves out what makes those of different beams comparable: their log-sum-exp."""

import numpy as np

from minidecode.reference.candidates import top_candidates_naive


def hars_candidates(logits_RV, base_BW, C, out=None):
    total_BWV = logits_RV.reshape(*base_BW.shape, -1) + base_BW[:, :, None]
    best_BC, index_BC = top_candidates_naive(total_BWV.reshape(len(base_BW), -1), C)
    impossible_R = ~(np.isfinite(logits_RV.max(axis=1)))
    best_BC[impossible_R.reshape(base_BW.shape).any(axis=1)] = np.nan
    return best_BC, *np.divmod(index_BC, logits_RV.shape[1])
