"""sums scores in float32."""

import numpy as np

from minidecode.reference import extend as reference


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    sum_R = total_R.astype(np.float32)
    flag = reference.extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, sum_R, length_R,
        done_R, prompt_R, limit_R, eos_X, model_trouble_R,
    )  # fmt: skip
    total_R[...] = sum_R
    return flag
