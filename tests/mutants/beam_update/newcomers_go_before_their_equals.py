"""places a text that finishes in front of those that score the same and finished before."""

import numpy as np

from minidecode.reference import beam_update as reference


def update_beams(
    score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B, prompt_B,
    limit_B, norm_X, eos_X, rules, out=None,
):  # fmt: skip
    before_BW, lengths_BW, was_done_B = finished_score_BW.copy(), finished_length_BW.copy(), done_B.copy()
    answers = reference.update_beams(
        score_BC, parent_BC, token_BC, running_score_BW, finished_score_BW, finished_length_BW, done_B, length_B,
        prompt_B, limit_B, norm_X, eos_X, rules,
    )  # fmt: skip
    finishes_BC, slot_BW, at_B = answers[3:6]
    W, new_B = slot_BW.shape[1], at_B + 1 - prompt_B
    for b in range(len(score_BC)):
        if was_done_B[b] or (rules.beams_at_limit and new_B[b] == limit_B[b]):
            continue
        texts = [(before_BW[b, w], lengths_BW[b, w], w) for w in range(W)]
        new = [(score_BC[b, c] / norm_X[new_B[b]], new_B[b], W + c) for c in np.flatnonzero(finishes_BC[b])]
        for w, text in enumerate(sorted(new + texts, key=lambda t: -t[0])[:W]):
            finished_score_BW[b, w], finished_length_BW[b, w], slot_BW[b, w] = text
    return answers
