"""takes the norm of prompt and new tokens together."""

import numpy as np

from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    whole_B = np.minimum(length_B + 1, len(norm_X) - 1)
    norm_X = norm_X.copy()
    norm_X[length_B + 1 - prompt_B] = norm_X[whole_B]
    return reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, rules,
    )  # fmt: skip
