"""What is done to a step's scores before tokens are chosen, in the order of transformers 5."""

from __future__ import annotations

import numpy as np


def process(ops, scores_RV, tokens_RM, length_R, prompt_R, options):
    """n-gram ban, then min_length, then min_new_tokens; scores_RV is changed in place and returned.

    length_R counts each row's tokens so far, prompt_R those of its prompt. An EOS that comes too early scores -inf.
    """
    if options.no_repeat_ngram_size:
        scores_RV = ops.ban_ngrams(scores_RV, tokens_RM, length_R, options.no_repeat_ngram_size)
    too_early_R = (length_R < options.min_length) | (length_R - prompt_R < options.min_new_tokens)
    if options.eos_token_id and too_early_R.any():
        scores_RV[np.ix_(too_early_R, options.eos_token_id)] = -np.inf
    return scores_RV
