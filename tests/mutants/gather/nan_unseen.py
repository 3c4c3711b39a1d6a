"""says nothing of NaN."""

import numpy as np

from minidecode.ops import FINE, NOT_A_NUMBER
from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.gather_logprobs(token_R, scores_RV, logprobs_RV)
    return logprob_R, np.where(trouble_R == NOT_A_NUMBER, FINE, trouble_R)
