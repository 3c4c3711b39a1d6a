"""takes a token that the model finds impossible for none."""

import numpy as np

from minidecode.ops import NONE_LEFT
from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.gather_logprobs(token_R, scores_RV, logprobs_RV)
    return logprob_R, np.where(np.isneginf(logprob_R), NONE_LEFT, trouble_R)
