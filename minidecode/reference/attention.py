"""What attention over every kind of memory is made of."""

from __future__ import annotations

import numpy as np

from . import room

# Scores and sums, with the H/G query heads of a key/value head (X) as rows of one product. Where memory is by row, each
# row is a product of its own; where it is by sentence, the rows of its beams join in.


def scores_of_rows(q_RHK, k_RGMK, scale, workspace=None):
    R, H, K = q_RHK.shape
    G, M = k_RGMK.shape[1:3]
    scores_RGXM = room(workspace, (R, G, H // G, M), q_RHK)  # of q's dtype, whatever the memory's
    np.matmul(q_RHK.reshape(R, G, H // G, K), k_RGMK.transpose(0, 1, 3, 2), out=scores_RGXM)
    scores_RGXM *= scale
    return scores_RGXM.reshape(R, H, M)


def sums_of_rows(weights_RHM, v_RGMU, workspace=None):
    R, H, M = weights_RHM.shape
    G, U = v_RGMU.shape[1], v_RGMU.shape[3]
    a_RGXU = room(workspace, (R, G, H // G, U), weights_RHM)
    return np.matmul(weights_RHM.reshape(R, G, H // G, M), v_RGMU, out=a_RGXU).reshape(R, H, U)


def scores_of_sentences(q_RHK, k_BGNK, scale, workspace=None):
    B, G, N, _ = k_BGNK.shape
    q_BGXK = rows_joined(q_RHK, B, G, workspace)
    scores_BGXN = room(workspace, (*q_BGXK.shape[:3], N), q_RHK)
    np.matmul(q_BGXK, k_BGNK.transpose(0, 1, 3, 2), out=scores_BGXN)
    scores_BGXN *= scale
    return rows_apart(scores_BGXN, *q_RHK.shape[:2], workspace)


def sums_of_sentences(weights_RHN, v_BGNU, workspace=None):
    B, G, _, U = v_BGNU.shape
    weights_BGXN = rows_joined(weights_RHN, B, G, workspace)
    a_BGXU = room(workspace, (*weights_BGXN.shape[:3], U), weights_RHN)
    np.matmul(weights_BGXN, v_BGNU, out=a_BGXU)
    return rows_apart(a_BGXU, *weights_RHN.shape[:2], workspace)


def rows_joined(x_RHX, B, G, workspace):
    """(B, G, X, X): a sentence's rows under each other, one block for each key/value head."""
    R, H, X = x_RHX.shape
    x_BGXX = room(workspace, (B, G, R // B * (H // G), X), x_RHX)
    parts = x_RHX.reshape(B, R // B, G, H // G, X).transpose(0, 2, 1, 3, 4)
    x_BGXX.reshape(parts.shape)[...] = parts
    return x_BGXX


def rows_apart(x_BGXX, R, H, workspace):
    """The reverse: (R, H, X)."""
    B, G, _, X = x_BGXX.shape
    x_RHX = room(workspace, (R, H, X), x_BGXX)
    parts = x_BGXX.reshape(B, G, R // B, H // G, X).transpose(0, 2, 1, 3, 4)
    x_RHX.reshape(parts.shape)[...] = parts
    return x_RHX


def mask(scores_RHM, begin_R, end_R) -> None:
    """-inf for the positions outside of begin <= m < end, if there are any."""
    if begin_R.any() or (end_R < scores_RHM.shape[2]).any():
        for scores_HM, begin, end in zip(scores_RHM, begin_R, end_R, strict=True):
            scores_HM[:, : max(begin, 0)] = -np.inf
            scores_HM[:, max(end, 0) :] = -np.inf


def heads_side_by_side(a_RHU, out):
    a_RX = a_RHU.reshape(len(a_RHU), -1)
    if out is None:
        return a_RX
    out[...] = a_RX
    return out
