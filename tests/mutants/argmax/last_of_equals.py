"""takes the last of equal scores."""

import numpy as np

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    V = scores_RV.shape[1]
    token_R, logprob_R, trouble_R = reference.argmax_tokens(scores_RV, logits_RV)
    for r in np.flatnonzero(trouble_R != 1):
        token_R[r] = V - 1 - scores_RV[r, ::-1].argmax()
        certain_RV = np.eye(V, dtype=scores_RV.dtype)[token_R[r : r + 1]]
        _, logprob_R[r : r + 1], _ = reference.argmax_tokens(certain_RV, None if logits_RV is None else logits_RV[[r]])
        if logits_RV is None:
            logprob_R[r] = scores_RV[r, token_R[r]]
    return token_R, logprob_R, trouble_R
