"""calls a sentence done that has no candidate and nothing finished, and says nothing."""

from minidecode.ops import FINE, NONE_LEFT
from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    *results, trouble_B = reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, rules,
    )  # fmt: skip
    trouble_B[trouble_B == NONE_LEFT] = FINE
    return *results, trouble_B
