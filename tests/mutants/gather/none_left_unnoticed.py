"""takes a token where none is left, and says nothing."""

import numpy as np

from minidecode.ops import FINE, NONE_LEFT
from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.gather_logprobs(token_R, scores_RV, logprobs_RV)
    return logprob_R, np.where(trouble_R == NONE_LEFT, FINE, trouble_R)
