"""Rotation of queries and keys by their positions (rotary embedding, Su et al. 2021), with the bias in front of it."""

from __future__ import annotations

import numpy as np

from . import scratch, view_as_rows


def rotate_heads_naive(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None):
    """Rotates as code for training does: cosines and sines as wide as a head, and a copy with its halves exchanged."""
    biased_RX = qkv_RX.copy() if bias_X is None else qkv_RX + bias_X
    R, turned, half = len(qkv_RX), (heads.H + heads.G) * heads.K, heads.K // 2
    x_RHK = biased_RX[:, :turned].reshape(R, heads.H + heads.G, heads.K)
    cos_R1K, sin_R1K = (np.concatenate([part, part], axis=-1)[:, None] for part in np.split(turns_NK[pos_R], 2, -1))
    changed_RHK = np.concatenate([-x_RHK[..., half:], x_RHK[..., :half]], axis=-1)
    rotated_RHK = x_RHK * cos_R1K + changed_RHK * sin_R1K
    rotated_RX = np.concatenate([rotated_RHK.reshape(R, turned), biased_RX[:, turned:]], axis=1)
    if out is None:
        return rotated_RX
    out[...] = rotated_RX
    return out


def rotate_heads(qkv_RX, bias_X, heads, pos_R, turns_NK, out=None, *, workspace=None):
    """In place behind the addition of the bias; room for two halves is all that it needs."""
    y_RX = np.empty_like(qkv_RX, order="C") if out is None else view_as_rows(out)
    np.add(qkv_RX, 0 if bias_X is None else bias_X, out=y_RX)
    R, count, half = len(y_RX), heads.H + heads.G, heads.K // 2
    x_RHK = y_RX[:, : count * heads.K].reshape(R, count, heads.K)
    a_RHX, b_RHX = x_RHK[..., :half], x_RHK[..., half:]
    turn_RK = turns_NK[pos_R]
    cos_R1X, sin_R1X = turn_RK[:, None, :half], turn_RK[:, None, half:]
    a_sin_RHX = np.multiply(a_RHX, sin_R1X, out=scratch(workspace, (R, count, half), y_RX))
    b_sin_RHX = np.multiply(b_RHX, sin_R1X, out=scratch(workspace, (R, count, half), y_RX))
    a_RHX *= cos_R1X
    a_RHX -= b_sin_RHX
    b_RHX *= cos_R1X
    b_RHX += a_sin_RHX
    return y_RX if out is None else out
