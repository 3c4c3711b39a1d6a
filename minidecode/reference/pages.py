"""Copies of pages: a row that is about to write a page that others hold gets a page of its own first."""

from __future__ import annotations


def copy_pages_naive(k_XGMX, source_R, target_R, out=None):
    """Every row's page is copied, also where it stays the row's own."""
    if out is not None:
        out[...] = k_XGMX
        k_XGMX = out
    k_XGMX[target_R] = k_XGMX[source_R]
    return k_XGMX


def copy_pages(k_XGMX, source_R, target_R, out=None):
    """Only pages that become others are copied, straight to where they stay."""
    if out is not None:
        out[...] = k_XGMX
        k_XGMX = out
    for source, target in zip(source_R.tolist(), target_R.tolist(), strict=True):
        if source != target:
            k_XGMX[target] = k_XGMX[source]
    return k_XGMX
