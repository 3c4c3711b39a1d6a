"""hopes with the best candidate, which may have ended, in place of the best that runs."""

from dataclasses import replace

from minidecode.ops import BEST_BEAM, BEST_CANDIDATE
from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    rules = replace(rules, hope=BEST_CANDIDATE if rules.hope == BEST_BEAM else rules.hope)
    return reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, rules,
    )  # fmt: skip
