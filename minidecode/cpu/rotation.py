"""Bias and rotation of queries and keys in one pass, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from ..reference import rotation as reference
from .activation import no_bias
from .common.code_paths import COMPILED, NUMPY, ran
from .common.jit import njit

F = np.float32


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None, *, workspace=None):
    """In float32; where numbers are of another dtype, or lie otherwise, the reference does it.

    So it does where a position is outside of the table: what it raises is raised here too.
    """
    y_RX = np.empty(qkv_RX.shape, F) if out is None else out
    bias_of_X = no_bias(qkv_RX.shape[1]) if bias_X is None else bias_X
    given = qkv_RX, turns_NK, y_RX
    if all(a.dtype == F and a.flags.c_contiguous for a in given) and _rotate_heads(
        qkv_RX, bias_of_X, pos_R, turns_NK, heads.H + heads.G, y_RX
    ):
        ran(COMPILED)
        return y_RX
    ran(NUMPY)
    return reference.rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out, workspace=workspace)


@njit(cache=True, nogil=True)
def _rotate_heads(qkv_RX, bias_X, pos_R, turns_NK, heads, y_RX):
    """False, and nothing is written, where a position is outside of the table."""
    (R, X), (N, K) = qkv_RX.shape, turns_NK.shape
    half, turned = K // 2, heads * K
    for r in range(R):
        if not 0 <= pos_R[r] < N:
            return False
    for r in range(R):
        turn_K = turns_NK[pos_R[r]]
        for first in range(0, turned, K):
            for i in range(half):
                a, b = qkv_RX[r, first + i] + bias_X[first + i], qkv_RX[r, first + half + i] + bias_X[first + half + i]
                y_RX[r, first + i] = a * turn_K[i] - b * turn_K[half + i]
                y_RX[r, first + half + i] = b * turn_K[i] + a * turn_K[half + i]
        for x in range(turned, X):
            y_RX[r, x] = qkv_RX[r, x] + bias_X[x]
    return True
