"""takes a token that the model finds impossible for none."""

import numpy as np

from minidecode.ops import NONE_LEFT
from minidecode.reference import weigh as reference


def weigh_tokens(token_R, scores_RV, logprobs_RV=None, out=None):
    logprob_R, trouble_R = reference.weigh_tokens(token_R, scores_RV, logprobs_RV)
    return logprob_R, np.where(np.isneginf(logprob_R), NONE_LEFT, trouble_R)
