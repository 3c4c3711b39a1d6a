"""Attention as NumPy has it, kernel by kernel: what the first versions of indirect.py and rolling.py end in."""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, int64, types

from ..errors import OptionError
from ..launch import launch
from .reduction import THREADS

NOTHING = float32(-np.inf)  # the score of a position that is not seen; exp of it is 0


def three_kernels(q_RHK, parts, scale, out):
    """Scores, softmax, weighted sums, each with arrays of its own; parts: (k_XGMK, v_XGMU, begin_X, end_X) of each.

    A part holds X memories, each of them that of R/X rows. The scores of all parts lie side by side.
    """
    a_RX = result(q_RHK, [array for k_XGMK, v_XGMU, *_ in parts for array in (k_XGMK, v_XGMU)], out)
    R, H, _ = q_RHK.shape
    lengths = [k_XGMK.shape[2] for k_XGMK, *_ in parts]
    firsts = [sum(lengths[:i]) for i in range(len(parts))]
    scores_RHM = np.empty_like(q_RHK, shape=(R, H, sum(lengths)), order="C")
    a_RX[...] = 0
    for (k_XGMK, _, begin_X, end_X), first, M in zip(parts, firsts, lengths, strict=True):
        arguments = q_RHK, k_XGMK, begin_X, end_X, np.float32(scale), first, scores_RHM
        launch(score_part, -(-R * H * M // THREADS), THREADS, *arguments)
    launch(softmax_in_place, -(-R * H // THREADS), THREADS, scores_RHM)
    for (_, v_XGMU, begin_X, end_X), first in zip(parts, firsts, strict=True):
        launch(add_part, -(-a_RX.size // THREADS), THREADS, scores_RHM, v_XGMU, begin_X, end_X, first, a_RX)
    return a_RX


@cuda.jit
def score_part(q_RHK, k_XGMK, begin_X, end_X, scale, first, scores_RHM):
    """A thread per score."""
    R, H, K = q_RHK.shape
    X, G, M, _ = k_XGMK.shape
    i = cuda.grid(1)
    if i >= R * H * M:
        return
    r, h, m = i // (H * M), i // M % H, i % M
    x, g = r // (R // X), h // (H // G)
    score = NOTHING
    if begin_X[x] <= m < end_X[x]:
        total = float32(0)
        for d in range(K):
            total += q_RHK[r, h, d] * float32(k_XGMK[x, g, m, d])
        score = scale * total
    scores_RHM[r, h, first + m] = score


@cuda.jit
def softmax_in_place(scores_RHM):
    """A thread per row and head."""
    R, H, M = scores_RHM.shape
    i = cuda.grid(1)
    if i >= R * H:
        return
    r, h = i // H, i % H
    top, total = NOTHING, float32(0)
    for m in range(M):
        top = max(top, scores_RHM[r, h, m])
    for m in range(M):
        scores_RHM[r, h, m] = math.exp(scores_RHM[r, h, m] - top)
        total += scores_RHM[r, h, m]
    for m in range(M):
        scores_RHM[r, h, m] /= total


@cuda.jit
def add_part(weights_RHM, v_XGMU, begin_X, end_X, first, a_RX):
    """A thread per number of the result."""
    R, H, _ = weights_RHM.shape
    X, G, _, U = v_XGMU.shape
    i = cuda.grid(1)
    if i >= R * H * U:
        return
    r, h, u = i // (H * U), i // U % H, i % U
    x, g = r // (R // X), h // (H // G)
    total = float32(0)
    for m in range(begin_X[x], end_X[x]):
        total += weights_RHM[r, h, first + m] * float32(v_XGMU[x, g, m, u])
    a_RX[r, h * U + u] += total


def result(q_RHK, memory, out):
    """Where the answer goes. Raises OptionError where the kernels do not compute in these types."""
    narrow = [array.dtype for array in memory if array.dtype not in (np.float32, np.float16)]
    if q_RHK.dtype != np.float32 or narrow:
        raise OptionError(
            f"the kernels of attention take queries in float32, keys and values in float32 or float16, not"
            f" {(narrow or [q_RHK.dtype])[0]}: the reference takes float64 too"
        )
    R, H, _ = q_RHK.shape
    return np.empty_like(q_RHK, shape=(R, H * memory[1].shape[3])) if out is None else out


# What each kernel is compiled and type-checked for, without a GPU. Queries are a view of what a product gave.
QUERIES_RHK, RESULT_RX, NUMBERS_X = float32[:, :, :], float32[:, ::1], int64[::1]
MEMORIES = (float32[:, :, :, ::1], types.float16[:, :, :, ::1])
_SCORES = float32[:, :, ::1]
SIGNATURES = {
    score_part: [(QUERIES_RHK, m, NUMBERS_X, NUMBERS_X, float32, int64, _SCORES) for m in MEMORIES],
    softmax_in_place: [(_SCORES,)],
    add_part: [(_SCORES, m, NUMBERS_X, NUMBERS_X, int64, RESULT_RX) for m in MEMORIES],
}
