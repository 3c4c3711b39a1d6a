"""looks for the best among four neighbours from the last of them on."""

import numpy as np

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    token_R, logprob_R, trouble_R = reference.argmax_tokens(scores_RV, logits_RV)
    for r, token in enumerate(token_R):
        four = scores_RV[r, token // 4 * 4 : token // 4 * 4 + 4]
        if trouble_R[r] == 0:
            token_R[r] = token // 4 * 4 + np.flatnonzero(four == scores_RV[r, token])[-1]
    return token_R, logprob_R, trouble_R
