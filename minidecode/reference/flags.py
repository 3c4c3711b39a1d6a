"""What the host must know of a step of beam search, as one number."""

from __future__ import annotations

import numpy as np

from ..ops import ALL_DONE, FINE, MOVED, SOME_DONE, TROUBLE
from . import flag_array


def step_flags_naive(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    """Looks at one after the other."""
    flag = flag_array(trouble_X, out)
    troubles = [*trouble_X, *(() if model_trouble_R is None else model_trouble_R)]
    bits = (ALL_DONE if all(done_X) else 0) + (SOME_DONE if any(done_X) else 0)
    bits += TROUBLE if any(trouble != FINE for trouble in troubles) else 0
    bits += MOVED if any(parent != w for (_, w), parent in np.ndenumerate(parent_BW)) else 0
    flag[0] = bits
    return flag


def step_flags(done_X, trouble_X, parent_BW, model_trouble_R=None, out=None):
    """FINE is 0, so that any other number counts as true."""
    flag = flag_array(trouble_X, out)
    is_wrong = trouble_X.any() if model_trouble_R is None else trouble_X.any() | model_trouble_R.any()
    moved = (parent_BW != np.arange(parent_BW.shape[1])).any()
    flag[0] = ALL_DONE * done_X.all() + SOME_DONE * done_X.any() + TROUBLE * is_wrong + MOVED * moved
    return flag
