"""A decode step's new position: bias and cut into heads, keys and values into the cache."""

from __future__ import annotations

import numpy as np

from ..device.low_precision import largest_stored_number
from . import scratch, view_as_rows
from .heads import split_heads_naive


def append_kv_naive(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None):
    """Step by step: keys and values get arrays of their own first, and are copied from there into the cache."""
    q_RHK, k_RGK, v_RGU = split_heads_naive(qkv_RX, bias_X, heads)
    write_positions(k_RGMK, k_RGK, at_R)
    write_positions(v_RGMU, v_RGU, at_R)
    if out is None:
        return q_RHK
    out[...] = q_RHK
    return out


def append_kv(qkv_RX, bias_X, heads, k_RGMK, v_RGMU, at_R, out=None, *, workspace=None):
    """The biased row is cut by views alone: keys and values go from there straight to their places."""
    q_RHK, k_RGK, v_RGU = add_and_cut(qkv_RX, bias_X, heads, out, workspace)
    write_positions(k_RGMK, k_RGK, at_R)
    write_positions(v_RGMU, v_RGU, at_R)
    return q_RHK


def add_and_cut(qkv_RX, bias_X, heads, out, workspace):
    """(q_RHK, k_RGK, v_RGU): the sums, with the queries in `out` if there is one, and keys and values in scratch."""
    R, first, keys = len(qkv_RX), heads.H * heads.K, heads.G * heads.K
    q_RX = np.empty_like(qkv_RX, shape=(R, first), order="C") if out is None else view_as_rows(out)
    kv_RX = scratch(workspace, (R, qkv_RX.shape[1] - first), qkv_RX)
    for target_RX, columns in ((q_RX, slice(first)), (kv_RX, slice(first, None))):
        np.add(qkv_RX[:, columns], 0 if bias_X is None else bias_X[columns], out=target_RX)
    q_RHK = q_RX.reshape(R, heads.H, heads.K) if out is None else out
    k_RGK, v_RGU = kv_RX[:, :keys].reshape(R, heads.G, heads.K), kv_RX[:, keys:].reshape(R, heads.G, heads.U)
    return q_RHK, k_RGK, v_RGU


def write_positions(k_XGMX, k_RGX, at_R, page_R=None) -> None:
    """One position of each row, in its own cache or in page_R; k_RGX is cut off in place at what the cache can hold."""
    if k_XGMX.dtype != k_RGX.dtype:
        largest = largest_stored_number(k_XGMX.dtype)
        np.clip(k_RGX, -largest, largest, out=k_RGX)
    k_XGMX[np.arange(len(at_R)) if page_R is None else page_R, :, at_R] = k_RGX
