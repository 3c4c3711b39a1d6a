"""Attention that looks up where a row's own positions lie, so that following the beams moves a table alone."""

from __future__ import annotations

import numpy as np

from .move import gather_rows
from .split import attend_split, attend_split_naive


def attend_indirect_naive(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None,
):  # fmt: skip
    """The cache that the table saves: everything is put where it would lie if the rows had been moved."""
    k_RGTK, v_RGTU = _gather_by_table(indirection_RT, k_RGTK), _gather_by_table(indirection_RT, v_RGTU)
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return attend_split_naive(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale, bias, out)


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, indirection_RT, begin_R, end_R, scale,
    bias=None, out=None, *, workspace=None,
):  # fmt: skip
    """Gathers what is written alone, and then attends by the two products of `attend_split`."""
    indirection_RT = indirection_RT[:, : int(end_R.max())]
    k_RGTK, v_RGTU = (
        _gather_by_table(indirection_RT, k_RGTK, workspace),
        _gather_by_table(indirection_RT, v_RGTU, workspace),
    )
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale, bias, out, workspace=workspace)


def _gather_by_table(indirection_RT, k_RGTX, workspace=None):
    """Each row's own positions, gathered from where the table says that they lie."""
    (R, G, steps, X), T = k_RGTX.shape, indirection_RT.shape[1]
    if workspace is None:
        return k_RGTX[indirection_RT[:, None], np.arange(G)[:, None], np.arange(T)]
    place_RGT = np.multiply(
        indirection_RT[:, None], G, out=workspace((R, G, T), np.int64)
    )  # in one list of all positions
    place_RGT += np.arange(G)[:, None]
    place_RGT *= steps
    place_RGT += np.arange(T)
    found_RGTX = workspace((R, G, T, X), k_RGTX.dtype)
    gather_rows(k_RGTX.reshape(-1, X), place_RGT.reshape(-1), out=found_RGTX.reshape(-1, X))
    return found_RGTX
