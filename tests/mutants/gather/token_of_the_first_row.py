"""looks at the first row's token in all rows."""

import numpy as np

from minidecode.reference import gather as reference


def gather_logprobs(token_R, scores_RV, logprobs_RV=None, out=None):
    return reference.gather_logprobs(np.full_like(token_R, token_R[0]), scores_RV, logprobs_RV)
