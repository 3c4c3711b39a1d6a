"""takes the higher column first where scores are equal, as a sort does that is turned round."""

import numpy as np

from minidecode.reference.softmax import log_softmax


def hars_candidates(logits_RV, base_BW, C, out=None):
    total_BX = (log_softmax(logits_RV)[0].reshape(*base_BW.shape, -1) + base_BW[:, :, None]).reshape(len(base_BW), -1)
    total_BX[np.isnan(total_BX).any(axis=1)] = np.nan
    index_BC = np.argsort(total_BX, axis=1, kind="stable")[:, ::-1][:, :C].copy()
    return np.take_along_axis(total_BX, index_BC, axis=1), *np.divmod(index_BC, logits_RV.shape[1])
