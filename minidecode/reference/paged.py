"""Attention over pages: a table says in which page each position of a row lies (vLLM's PagedAttention)."""

from __future__ import annotations

import numpy as np

from . import scratch
from .grouped import attend, attend_naive
from .move import gather_rows


def attend_paged_naive(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None):
    """The cache that the table saves: all pages of each row copied behind each other, empty ones too."""
    k_RGMK, v_RGMU = (
        np.concatenate([pages_XGMX[table_RX[:, x]] for x in range(table_RX.shape[1])], axis=2)
        for pages_XGMX in (k_XGMK, v_XGMU)
    )
    return attend_naive(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias, out)


def attend_paged(q_RHK, k_XGMK, v_XGMU, table_RX, begin_R, end_R, scale, bias=None, out=None, *, workspace=None):
    """Gathers the pages that some row has written, and then attends by the two products of `attend`."""
    table_RX = table_RX[:, : -(-int(end_R.max()) // k_XGMK.shape[2])]
    k_RGMK, v_RGMU = _gather_pages(k_XGMK, table_RX, workspace), _gather_pages(v_XGMU, table_RX, workspace)
    return attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale, bias, out, workspace=workspace)


def _gather_pages(pages_XGMX, table_RX, workspace):
    """Each row's pages behind each other, gathered a key/value head of a page at a time."""
    (X, G, M, width), (R, pages) = pages_XGMX.shape, table_RX.shape
    head_RGX = scratch(workspace, (R, G, pages), table_RX, np.int64)  # in one list of all heads of all pages
    np.multiply(table_RX[:, None], G, out=head_RGX)
    head_RGX += np.arange(G)[:, None]
    found_RGXX = scratch(workspace, (R, G, pages, M * width), pages_XGMX)
    gather_rows(pages_XGMX.reshape(X * G, -1), head_RGX.reshape(-1), out=found_RGXX.reshape(-1, M * width))
    return found_RGXX.reshape(R, G, pages * M, width)
