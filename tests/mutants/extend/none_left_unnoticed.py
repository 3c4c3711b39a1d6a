"""takes a token where none is left, and says nothing."""

import numpy as np

from minidecode.ops import FINE, NONE_LEFT
from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    return reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, np.where(trouble_R == NONE_LEFT, FINE, trouble_R), total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
