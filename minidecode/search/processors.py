"""What is done to a step's scores before tokens are chosen, in the order of transformers 5."""

from __future__ import annotations

import numpy as np


def process(ops, scores_RV, tokens_RM, length_R, prompt_R, limit_R, options):
    """n-gram ban, least length, forced BOS, forced EOS; scores_RV is changed in place and returned.

    length_R counts each row's tokens so far, prompt_R those of its prompt, limit_R the most that may follow it. An EOS
    that comes too early, by min_new_tokens or else by min_length, scores -inf. A forced token scores 0, that is, it is
    certain, and all others -inf: BOS where a row holds one token, EOS where only one more may follow.
    """
    if options.no_repeat_ngram_size:
        scores_RV = ops.ban_ngrams(scores_RV, tokens_RM, length_R, options.no_repeat_ngram_size)
    if options.min_new_tokens is None:
        too_early_R = length_R < options.min_length
    else:
        too_early_R = length_R - prompt_R < options.min_new_tokens
    if options.eos_token_id and too_early_R.any():
        scores_RV[np.ix_(too_early_R, options.eos_token_id)] = -np.inf
    force(scores_RV, length_R == 1, options.forced_bos_token_id)
    force(scores_RV, length_R - prompt_R == limit_R - 1, options.forced_eos_token_id)
    return scores_RV


def force(scores_RV, where_R, ids: tuple[int, ...]) -> None:
    """In the rows of where_R, the tokens `ids` become certain; without ids nothing happens."""
    if ids and where_R.any():
        scores_RV[where_R] = -np.inf
        scores_RV[np.ix_(where_R, ids)] = 0.0
