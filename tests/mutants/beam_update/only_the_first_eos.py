"""knows the first of several EOS tokens alone."""

from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    return reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X[:1], rules,
    )  # fmt: skip
