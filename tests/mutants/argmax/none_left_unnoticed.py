"""takes token 0 where none is left, and says nothing."""

import numpy as np

from minidecode.reference import argmax as reference


def argmax_tokens(scores_RV, logits_RV=None, out=None):
    token_R, logprob_R, trouble_R = reference.argmax_tokens(scores_RV, logits_RV)
    return token_R, logprob_R, np.where(trouble_R == 2, 0, trouble_R)
