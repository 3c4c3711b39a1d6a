"""lets the W best candidates run on, whether they end or not."""

import numpy as np

from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    answers = reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, rules,
    )  # fmt: skip
    kept_BW, parent_BW, token_BW, *_ = answers
    kept_BW[...] = np.argsort(-score_BC, axis=1, kind="stable")[:, : kept_BW.shape[1]]
    for all_BC, kept in ((parent_BC, parent_BW), (token_BC, token_BW), (score_BC, running_score_BW)):
        kept[...] = np.take_along_axis(all_BC, kept_BW, axis=1)
    return answers
