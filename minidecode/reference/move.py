"""Ops that only move data."""

from __future__ import annotations

import numpy as np

from ..device.low_precision import cast_for_cache


def gather_rows(x_RX, pick_R, out=None):
    """A gather along the first axis."""
    if out is None:
        return np.take(x_RX, pick_R, axis=0)
    if len(pick_R) and (pick_R.min() < 0 or pick_R.max() >= len(x_RX)):
        raise IndexError(f"rows {pick_R} of {len(x_RX)}")
    return np.take(x_RX, pick_R, axis=0, out=out, mode="clip")  # "raise" would fill a buffer of its own first


def pad_left(k_RGX, offsets_X, N=None, out=None):
    """One block per sentence, zeros in front."""
    lengths_B = np.diff(offsets_X)
    B, N = len(lengths_B), int(lengths_B.max()) if N is None else N
    G, X = k_RGX.shape[1:]
    if out is None:
        out = np.zeros((B, G, N, X), k_RGX.dtype)
    else:
        out[...] = 0
    for b in range(B):
        rows = k_RGX[offsets_X[b] : offsets_X[b + 1]]
        out[b, :, N - lengths_B[b] :] = rows.transpose(1, 0, 2)
    return out


def concat_step(k_RGMX, k_RGX, out=None):
    """A new array, one position longer: what fairseq and transformers did each step."""
    return np.concatenate([k_RGMX, cast_for_cache(k_RGMX.dtype, k_RGX)[:, :, None]], axis=2, out=out)
