"""A step's end in greedy search and sampling: each sequence gets its token, and the host reads one number."""

from __future__ import annotations

import numpy as np

from ..ops import ALL_DONE, FINE, NOT_A_NUMBER, SOME_DONE, TROUBLE
from . import flag_array


def extend_sequences_naive(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    """Text by text."""
    flag, is_wrong = flag_array(trouble_R, out), False
    for r in range(len(token_R)):
        is_wrong |= trouble_R[r] == NOT_A_NUMBER or (trouble_R[r] != FINE and not done_R[r])
        is_wrong |= model_trouble_R is not None and model_trouble_R[r] != FINE
        if done_R[r] or trouble_R[r] != FINE:
            continue
        tokens_RM[r, length_R[r]] = token_R[r]
        length_R[r] += 1
        if not certain_R[r]:
            total_R[r] += gained_R[r]
        done_R[r] = token_R[r] in eos_X or length_R[r] - prompt_R[r] >= limit_R[r]
    flag[0] = (ALL_DONE if all(done_R) else 0) + (SOME_DONE if any(done_R) else 0) + (TROUBLE if is_wrong else 0)
    return flag


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    """All texts at once."""
    flag = flag_array(trouble_R, out)
    is_wrong_R = (trouble_R == NOT_A_NUMBER) | ((trouble_R != FINE) & ~done_R)
    if model_trouble_R is not None:
        is_wrong_R |= model_trouble_R != FINE
    goes_R = ~done_R & (trouble_R == FINE)
    tokens_RM[goes_R, length_R[goes_R]] = token_R[goes_R]
    length_R += goes_R
    total_R += np.where(goes_R & ~certain_R, gained_R, 0)
    done_R |= goes_R & (np.isin(token_R, eos_X) | (length_R - prompt_R >= limit_R))
    flag[0] = ALL_DONE * done_R.all() + SOME_DONE * done_R.any() + TROUBLE * is_wrong_R.any()
    return flag
