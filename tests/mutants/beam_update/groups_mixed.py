"""sorts by score the beams whose order says to which group they belong."""

from dataclasses import replace

from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    return reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, replace(rules, in_order=False),
    )  # fmt: skip
