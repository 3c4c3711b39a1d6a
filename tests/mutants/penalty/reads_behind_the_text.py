"""penalises what lies behind the text, too."""

import numpy as np

from minidecode.reference import penalty as reference


def penalize_tokens(scores_RV, tokens_XM, length_X, list_R, penalty, out=None):
    return reference.penalize_tokens(
        scores_RV, tokens_XM, np.minimum(length_X + 1, tokens_XM.shape[1]), list_R, penalty
    )
