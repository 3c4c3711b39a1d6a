"""Attention that looks up where a row's own positions lie, so that following the beams moves a table alone."""

from __future__ import annotations

import numpy as np

from .split import attend_split, attend_split_naive


def attend_indirect_naive(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, source_RT, begin_R, end_R, scale, out=None
):
    """The memory that the table saves: everything is put where it would lie if the rows had been moved."""
    k_RGTK, v_RGTU = _through(source_RT, k_RGTK), _through(source_RT, v_RGTU)
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return attend_split_naive(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale, out)


def attend_indirect(
    q_RHK, prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B, k_RGTK, v_RGTU, source_RT, begin_R, end_R, scale, out=None, *,
    workspace=None,
):  # fmt: skip
    """The same for what is written alone, and then the two products of `attend_split`."""
    source_RT = source_RT[:, : int(end_R.max())]
    k_RGTK, v_RGTU = _through(source_RT, k_RGTK), _through(source_RT, v_RGTU)
    prompt = prompt_k_BGNK, prompt_v_BGNU, prompt_begin_B
    return attend_split(q_RHK, *prompt, k_RGTK, v_RGTU, begin_R, end_R, scale, out, workspace=workspace)


def _through(source_RT, k_RGTX):
    """Each row's own positions, gathered from where the table says that they lie."""
    G, T = k_RGTX.shape[1], source_RT.shape[1]
    return k_RGTX[source_RT[:, None], np.arange(G)[:, None], np.arange(T)]


def redirect(source_RT, parent_R, length_R, out=None):
    """A gather of the written part; the right side is a copy, so that rows may change places."""
    if out is not None:
        out[...] = source_RT
        source_RT = out
    written = slice(int(length_R.max()))
    source_RT[:, written] = source_RT[parent_R, written]
    return source_RT
