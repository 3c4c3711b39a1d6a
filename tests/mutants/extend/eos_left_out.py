"""ends a text without its EOS."""

import numpy as np

from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    ends_R = np.isin(token_R, eos_X)
    before_R, length_before_R = tokens_RM.copy(), length_R.copy()
    flag = reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
    tokens_RM[ends_R], length_R[ends_R] = before_R[ends_R], length_before_R[ends_R]
    return flag
