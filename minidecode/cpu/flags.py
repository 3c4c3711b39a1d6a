"""What the host must know of a step of beam search, compiled for the CPU."""

from __future__ import annotations

from ..ops import ALL_DONE, FINE, MOVED, SOME_DONE, TROUBLE
from ..reference import flag_array
from .common.jit import njit


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    """One call in place of NumPy's eight. What was noted of sentences is looked at twice, if nothing else was."""
    flag = flag_array(trouble_X, out)
    _step_flags(done_X, trouble_X, parent_BW, trouble_X if model_trouble_R is None else model_trouble_R, flag)
    return flag


@njit(cache=True)
def _step_flags(done_X, trouble_X, parent_BW, model_trouble_R, flag):
    all_done, some_done, is_wrong, moved = True, False, False, False
    for x in range(len(done_X)):
        all_done &= done_X[x]
        some_done |= done_X[x]
        is_wrong |= trouble_X[x] != FINE
    for r in range(len(model_trouble_R)):
        is_wrong |= model_trouble_R[r] != FINE
    for b in range(len(parent_BW)):
        for w in range(parent_BW.shape[1]):
            moved |= parent_BW[b, w] != w
    flag[0] = ALL_DONE * all_done + SOME_DONE * some_done + TROUBLE * is_wrong + MOVED * moved
