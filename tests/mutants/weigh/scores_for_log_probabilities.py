"""gives the score that the token was drawn by."""

import numpy as np

from minidecode.reference import weigh as reference


def weigh_tokens(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.weigh_tokens(token_R, scores_RV, logprobs_RV)
    logprob_R[...] = scores_RV[np.arange(len(token_R)), token_R]
    return logprob_R, trouble_R
