"""Who may lie where in one block of memory: the lifetimes of a step's intermediates -> places (LightSeq, section 2.3).

The paper gives every intermediate its largest size before the service starts, and lets those share memory that do not
depend on each other; which those are, its code says by hand. Here they are found: two arrays may share if no call
needs both. All versions but the naive one are greedy: one array after the other takes the tightest gap that is left to
it, or goes behind all that it meets. They differ in who comes first (Pisarchyk and Lee, arXiv 2001.03288: "greedy by
size" and "by breadth"). Numbers alone go in and come out: nothing here knows what an array is.
"""

from __future__ import annotations

import numpy as np

from ..ops import ALIGNED


def assign_offsets_naive(bytes_X, first_X, last_X, out=None):
    """A buffer for each, one behind the other, and none is ever used twice."""
    size_X = rounded_to_alignment(bytes_X)
    return np.subtract(np.cumsum(size_X), size_X, out=out)


def assign_offsets_first_come(bytes_X, first_X, last_X, out=None):
    """Assigns offsets in the order in which arrays are written, as a program would ask for them."""
    return _place_in_gaps(np.argsort(first_X, kind="stable"), bytes_X, first_X, last_X, out)


def assign_offsets_by_size(bytes_X, first_X, last_X, out=None):
    """The largest first: small ones that come first must not stand in the way of a large one."""
    return _place_in_gaps(order_by_size(bytes_X, first_X, last_X), bytes_X, first_X, last_X, out)


def assign_offsets(bytes_X, first_X, last_X, out=None):
    """The smallest block that several orders give; of equal ones the first."""
    given = bytes_X, first_X, last_X
    placed = [_place_in_gaps(order(*given), *given) for order in ORDERS.values()]
    best_X = min(placed, key=lambda offset_X: (offset_X + bytes_X).max())
    if out is None:
        return best_X
    out[...] = best_X
    return out


# ---- orders in which to place: the earlier one is placed, the more freely ------------------------------------------


def order_by_size(bytes_X, first_X, last_X):
    """The largest first, of equal ones that which lives longest."""
    return np.lexsort((first_X - last_X, -bytes_X))


def order_by_breadth(bytes_X, first_X, last_X):
    """The call with the most bytes alive first, then the next; of those alive at a call the largest first."""
    of_size = order_by_size(bytes_X, first_X, last_X)
    calls = np.unique(np.concatenate([first_X, last_X]))
    alive = (first_X <= calls[:, None]) & (calls[:, None] <= last_X)
    order = {}
    for call in np.argsort(-(alive @ bytes_X), kind="stable"):
        order.update(dict.fromkeys(of_size[alive[call, of_size]].tolist()))
    return np.array(list(order))


def order_by_area(bytes_X, first_X, last_X):
    """Bytes times calls: what takes up the most of the picture first."""
    return np.argsort(-bytes_X * (1 + last_X - first_X), kind="stable")


def order_by_duration(bytes_X, first_X, last_X):
    """What lives longest first, so that the short ones find their gaps beside it."""
    return np.lexsort((-bytes_X, first_X - last_X))


ORDERS = {"size": order_by_size, "breadth": order_by_breadth, "area": order_by_area, "duration": order_by_duration}


# ---- places --------------------------------------------------------------------------------------------------------


def _place_in_gaps(order, bytes_X, first_X, last_X, out=None):
    """Each in turn takes the tightest gap among the placed ones that it meets, or goes behind them all."""
    size_X = rounded_to_alignment(bytes_X)
    offset_X = np.zeros_like(size_X) if out is None else out
    is_placed_X = np.zeros(len(size_X), bool)
    for i in order.tolist():
        offset_X[i] = 0
        if size_X[i]:  # an empty array collides with none
            meets_X = is_placed_X & (first_X <= last_X[i]) & (first_X[i] <= last_X)
            begin_X = offset_X[meets_X]
            offset_X[i] = _tightest_gap(size_X[i], begin_X, begin_X + size_X[meets_X])
            is_placed_X[i] = True
    return offset_X


def _tightest_gap(size, begin_X, end_X):
    """Where the smallest gap begins that holds `size` bytes between these; else the end of them all."""
    order = np.argsort(begin_X)
    free_from_X = np.concatenate([[0], np.maximum.accumulate(end_X[order])])
    gap_X = begin_X[order] - free_from_X[:-1]
    fits = np.flatnonzero(gap_X >= size)
    return free_from_X[fits[np.argmin(gap_X[fits])]] if len(fits) else free_from_X[-1]


def rounded_to_alignment(size):
    """The size, rounded up to the next offset where an array may begin."""
    return -(-size // ALIGNED) * ALIGNED
