"""What attention over every kind of cache is made of.

A cache may be float16: it is cast by blocks that stay in the L2 cache, and every product and sum is in the dtype of
the queries. To cast the whole of it would write and read back more bytes than were saved; so do the naive versions.
"""

from __future__ import annotations

import numpy as np

from .. import scratch

CACHED = 2**17  # numbers that are cast together: half a megabyte of float32, which stays in the L2 cache

# Scores and sums, with the H/G query heads of a key/value head (X) as rows of one product. Where memory is by row, each
# row is a product of its own; where it is by sentence, the rows of its beams join in.


def scores_of_rows(q_RHK, k_RGMK, scale, workspace=None):
    R, H, K = q_RHK.shape
    G, M = k_RGMK.shape[1:3]
    scores_RGXM = scratch(workspace, (R, G, H // G, M), q_RHK)  # of q's dtype, whatever the cache's
    multiply_by_keys(q_RHK.reshape(R, G, H // G, K), k_RGMK, scores_RGXM, workspace)
    scores_RGXM *= scale
    return scores_RGXM.reshape(R, H, M)


def sums_of_rows(weights_RHM, v_RGMU, workspace=None):
    R, H, M = weights_RHM.shape
    G, U = v_RGMU.shape[1], v_RGMU.shape[3]
    a_RGXU = scratch(workspace, (R, G, H // G, U), weights_RHM)
    return multiply_by_values(weights_RHM.reshape(R, G, H // G, M), v_RGMU, a_RGXU, workspace).reshape(R, H, U)


def scores_of_sentences(q_RHK, k_BGNK, scale, workspace=None, cast=np.copyto):
    B, G, N, _ = k_BGNK.shape
    q_BGXK = join_rows_of_sentences(q_RHK, B, G, workspace)
    scores_BGXN = scratch(workspace, (*q_BGXK.shape[:3], N), q_RHK)
    multiply_by_keys(q_BGXK, k_BGNK, scores_BGXN, workspace, cast)
    scores_BGXN *= scale
    return split_rows_of_sentences(scores_BGXN, *q_RHK.shape[:2], workspace)


def sums_of_sentences(weights_RHN, v_BGNU, workspace=None, cast=np.copyto):
    B, G, _, U = v_BGNU.shape
    weights_BGXN = join_rows_of_sentences(weights_RHN, B, G, workspace)
    a_BGXU = scratch(workspace, (*weights_BGXN.shape[:3], U), weights_RHN)
    multiply_by_values(weights_BGXN, v_BGNU, a_BGXU, workspace, cast)
    return split_rows_of_sentences(a_BGXU, *weights_RHN.shape[:2], workspace)


def multiply_by_keys(q_XGXK, k_XGMK, scores_XGXM, workspace=None, cast=np.copyto):
    """scores = q k^T, for each cache and key/value head. cast(to, these) casts a block."""
    if k_XGMK.dtype == q_XGXK.dtype:
        return np.matmul(q_XGXK, k_XGMK.transpose(0, 1, 3, 2), out=scores_XGXM)
    for x, m, floats in float_blocks(k_XGMK, q_XGXK, workspace, cast):
        np.matmul(q_XGXK[x], floats.transpose(0, 1, 3, 2), out=scores_XGXM[x, :, :, m])
    return scores_XGXM


def multiply_by_values(weights_XGXM, v_XGMU, a_XGXU, workspace=None, cast=np.copyto):
    """a = weights v, for each cache and key/value head."""
    if v_XGMU.dtype == weights_XGXM.dtype:
        return np.matmul(weights_XGXM, v_XGMU, out=a_XGXU)
    part_XGXU = scratch(workspace, a_XGXU.shape, a_XGXU)
    a_XGXU[...] = 0
    for x, m, floats in float_blocks(v_XGMU, weights_XGXM, workspace, cast):
        a_XGXU[x] += np.matmul(weights_XGXM[x, :, :, m], floats, out=part_XGXU[x])
    return a_XGXU


def float_blocks(k_XGMX, like, workspace, cast):
    """(caches, positions, their numbers in like's dtype), block by block, in one place that is used again.

    A block has as many positions as stay in the L2 cache, or several caches where they are short.
    """
    caches, G, M, width = k_XGMX.shape
    if not k_XGMX.size:
        return
    positions = min(M, max(1, CACHED // (G * width)))
    together = min(caches, max(1, CACHED // (G * width * M)))
    float_X = scratch(workspace, (min(k_XGMX.size, max(CACHED, G * width)),), like)  # no more for fewer positions
    for first in range(0, caches, together):
        for begin in range(0, M, positions):
            x, m = slice(first, first + together), slice(begin, begin + positions)
            stored = k_XGMX[x, :, m]
            floats = float_X[: stored.size].reshape(stored.shape)
            cast(floats, stored)
            yield x, m, floats


def join_rows_of_sentences(x_RHX, B, G, workspace):
    """(B, G, X, X): a sentence's rows under each other, one block for each key/value head."""
    R, H, X = x_RHX.shape
    x_BGXX = scratch(workspace, (B, G, R // B * (H // G), X), x_RHX)
    parts = x_RHX.reshape(B, R // B, G, H // G, X).transpose(0, 2, 1, 3, 4)
    x_BGXX.reshape(parts.shape)[...] = parts
    return x_BGXX


def split_rows_of_sentences(x_BGXX, R, H, workspace):
    """The reverse: (R, H, X)."""
    B, G, _, X = x_BGXX.shape
    x_RHX = scratch(workspace, (R, H, X), x_BGXX)
    parts = x_BGXX.reshape(B, G, R // B, H // G, X).transpose(0, 2, 1, 3, 4)
    x_RHX.reshape(parts.shape)[...] = parts
    return x_RHX


def add_position_bias(scores_RHM, bias, distance_RM, workspace=None) -> None:
    """Adds to each score what the bias has for that row, head and distance; without a bias, nothing."""
    if bias is None:
        return
    (R, H, M), L = scores_RHM.shape, len(bias.bucket_L)
    bucket_RM = scratch(workspace, (R, M), distance_RM)
    place_RM = np.add(distance_RM, bias.zero, out=distance_RM)
    np.take(bias.bucket_L, np.clip(place_RM, 0, L - 1, out=place_RM), out=bucket_RM, mode="clip")
    for x, bias_HP in enumerate(bias.bias_XHP):
        rows = slice(None) if len(bias.bias_XHP) == 1 else slice(x, x + 1)
        added_HRM = scratch(workspace, (H, *bucket_RM[rows].shape), scores_RHM)
        scores_RHM[rows] += np.take(bias_HP, bucket_RM[rows], axis=1, out=added_HRM, mode="clip").transpose(1, 0, 2)


def distances_back(end_R, M, workspace=None):
    """distance_RM: how far before its row's own position, end[r] - 1, each of M positions lies."""
    distance_RM = scratch(workspace, (len(end_R), M), end_R, np.int64)
    np.subtract(end_R[:, None], np.arange(1, M + 1), out=distance_RM)
    return distance_RM


def mask_scores(scores_RHM, begin_R, end_R) -> None:
    """-inf for the positions outside of begin <= m < end, if there are any."""
    if begin_R.any() or (end_R < scores_RHM.shape[2]).any():
        for scores_HM, begin, end in zip(scores_RHM, begin_R, end_R, strict=True):
            scores_HM[:, : max(begin, 0)] = -np.inf
            scores_HM[:, max(end, 0) :] = -np.inf


def join_heads(a_RHU, out):
    a_RX = a_RHU.reshape(len(a_RHU), -1)
    if out is None:
        return a_RX
    out[...] = a_RX
    return out
