"""gives the token's logit, without the sum of exponentials."""

import numpy as np

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    token_R, logprob_R, trouble_R = reference.argmax_tokens(scores_RV, logits_RV)
    if logits_RV is not None:
        logprob_R[...] = np.where(trouble_R == 1, np.nan, logits_RV[np.arange(len(token_R)), token_R])
    return token_R, logprob_R, trouble_R
