"""Following the beams: a row goes on from what another one held."""

from __future__ import annotations

from collections import Counter

from . import scratch
from .move import gather_rows


def reorder_cache_naive(k_RGMX, parent_R, length_R, out=None):
    """All rows are copied, those that stay where they are too, with room that nothing is written in yet."""
    moved_RGMX = gather_rows(k_RGMX, parent_R)
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    written = slice(int(length_R.max()))
    k_RGMX[:, :, written] = moved_RGMX[:, :, written]
    return k_RGMX


def reorder_cache(k_RGMX, parent_R, length_R, out=None, *, workspace=None):
    """Only rows whose parent is another row move, and of those only what is written, with room for one row."""
    if out is not None:
        out[...] = k_RGMX
        k_RGMX = out
    move_rows(k_RGMX[:, :, : int(length_R.max())], parent_R, workspace)
    return k_RGMX


def move_rows(rows, parent_R, workspace) -> None:
    """rows[r] = rows[parent[r]], all at once, in place."""
    spare = scratch(workspace, rows.shape[1:], rows)
    for to, source in copies_in_order(parent_R.tolist()):
        target = spare if to is None else rows[to]
        target[...] = spare if source is None else rows[source]


def copies_in_order(parent_R):
    """(to, source) row by row, in an order in which no row is lost that somebody still goes on from; None is the spare.

    A row that no other waits for may be written. Where each one left is waited for by another, they stand in rings:
    one row of a ring is put aside, and the ring unrolls.
    """
    source = {r: parent for r, parent in enumerate(parent_R) if parent != r}
    waiting = Counter(source.values())
    free = [r for r in source if not waiting[r]]
    while source:
        if not free:
            aside = next(iter(source))
            (reader,) = (r for r, parent in source.items() if parent == aside)
            yield None, aside
            source[reader] = None
            free.append(aside)
        to = free.pop()
        parent = source.pop(to)
        yield to, parent
        waiting[parent] -= 1
        if not waiting[parent] and parent in source:
            free.append(parent)
