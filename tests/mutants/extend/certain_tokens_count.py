"""adds the log-probability of tokens that were forced."""

import numpy as np

from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    return reference.extend_sequences(
        tokens_RM, token_R, gained_R, np.zeros_like(certain_R), trouble_R, total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
