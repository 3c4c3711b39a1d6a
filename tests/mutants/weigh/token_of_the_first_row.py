"""looks at the first row's token in all rows."""

import numpy as np

from minidecode.reference import weigh as reference


def weigh_tokens(token_R, scores_RV, logprobs_RV=None, out=None):
    return reference.weigh_tokens(np.full_like(token_R, token_R[0]), scores_RV, logprobs_RV)
