"""Local attention over a cache of as many positions as are seen: the newest lies where the oldest lay."""

from __future__ import annotations

import numpy as np

from . import scratch
from .common.attention import add_position_bias, join_heads, scores_of_rows, sums_of_rows
from .common.softmax import softmax
from .grouped import attend


def attend_rolling_naive(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None):
    """Positions are put in order, the oldest first, and attended to as in any other cache."""
    R, G, M, _ = k_RGMK.shape
    slot_RM = (end_R[:, None] + np.arange(M)) % M  # of the positions end - M to end - 1
    places = np.arange(R)[:, None, None], np.arange(G)[:, None], slot_RM[:, None]
    first_R = np.maximum(begin_R - (end_R - M), 0)
    return attend(q_RHK, k_RGMK[places], v_RGMU[places], first_R, np.full(R, M), scale, bias, out)


def attend_rolling(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias=None, out=None, *, workspace=None):
    """Slot by slot as they lie: a sum has no order. Where fewer than M positions are to be seen, the slots behind the
    newest are not: they are the next to be written.
    """
    M = k_RGMK.shape[2]
    scores_RHM = scores_of_rows(q_RHK, k_RGMK, scale, workspace)
    if bias is not None:
        age_RM = scratch(workspace, (len(end_R), M), end_R, np.int64)  # of what lies in a slot
        np.mod(np.subtract(end_R[:, None], np.arange(1, M + 1), out=age_RM), M, out=age_RM)
        add_position_bias(scores_RHM, bias, age_RM, workspace)
    for scores_HM, begin, end in zip(scores_RHM, begin_R, end_R, strict=True):
        first, unseen = end % M, max(M - (end - begin), 0)
        scores_HM[:, first : first + unseen] = -np.inf
        scores_HM[:, : max(first + unseen - M, 0)] = -np.inf
    return join_heads(sums_of_rows(softmax(scores_RHM, workspace), v_RGMU, workspace), out)
