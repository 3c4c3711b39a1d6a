"""A step's end in greedy search and sampling, compiled for the CPU."""

from __future__ import annotations

from ..ops import ALL_DONE, FINE, NOT_A_NUMBER, SOME_DONE, TROUBLE
from ..reference import flag_array
from .common.jit import njit
from .common.tokens import is_among


def extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R=None, out=None,
):  # fmt: skip
    """One call in place of NumPy's twenty."""
    flag = flag_array(trouble_R, out)
    has_noted = model_trouble_R is not None
    _extend_sequences(
        tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
        model_trouble_R if has_noted else trouble_R, has_noted, flag,
    )  # fmt: skip
    return flag


@njit(cache=True)
def _extend_sequences(
    tokens_RM, token_R, gained_R, certain_R, trouble_R, total_R, length_R, done_R, prompt_R, limit_R, eos_X,
    model_trouble_R, has_noted, flag,
):  # fmt: skip
    all_done, some_done, is_wrong = True, False, False
    for r in range(len(token_R)):
        is_wrong |= trouble_R[r] == NOT_A_NUMBER or (trouble_R[r] != FINE and not done_R[r])
        is_wrong |= has_noted and model_trouble_R[r] != FINE
        if not done_R[r] and trouble_R[r] == FINE:
            tokens_RM[r, length_R[r]] = token_R[r]
            length_R[r] += 1
            if not certain_R[r]:
                total_R[r] += gained_R[r]
            done_R[r] = is_among(token_R[r], eos_X) or length_R[r] - prompt_R[r] >= limit_R[r]
        all_done &= done_R[r]
        some_done |= done_R[r]
    flag[0] = ALL_DONE * all_done + SOME_DONE * some_done + TROUBLE * is_wrong
