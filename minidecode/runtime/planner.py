"""Who may lie where: the lifetimes of a step's intermediates -> places in one block of memory (LightSeq, section 2.3).

The paper gives every intermediate its largest size before the service starts, and lets those share memory that do not
depend on each other; which those are, its code says by hand. Here they are found: two arrays may share if no call
needs both. The placement is the greedy one of Pisarchyk and Lee (arXiv 2001.03288, "greedy by size" and "by breadth").
Numbers alone go in and come out: nothing here knows what an array is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lifetime:
    """An array that must keep its bytes from call `first`, which writes it, to call `last`, which reads it last.

    A call writes results while it still reads its arguments, so both ends count.
    """

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether some call needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Layout:
    """A place for each lifetime: it has the bytes from its offset on."""

    lifetimes: tuple[Lifetime, ...]
    offsets: tuple[int, ...]
    order: str  # in which they were placed

    @property
    def bytes(self) -> int:
        """What the arena must hold."""
        return max((o + a.bytes for o, a in zip(self.offsets, self.lifetimes, strict=True)), default=0)

    @property
    def separate_bytes(self) -> int:
        """What they would take with a buffer each."""
        return sum(a.bytes for a in self.lifetimes)

    @property
    def lower_bound(self) -> int:
        """What no layout can go below: the largest set that is alive at one call."""
        return max((live_bytes(self.lifetimes, a.first) for a in self.lifetimes), default=0)


def live_bytes(lifetimes: Sequence[Lifetime], call: int) -> int:
    """Bytes of all that this call needs. The sum is largest where some lifetime begins."""
    return sum(a.bytes for a in lifetimes if a.first <= call <= a.last)


# ---- orders in which to place: the earlier one is placed, the more freely ------------------------------------------


def by_size(lifetimes: Sequence[Lifetime]) -> list[int]:
    """The largest first, of equal ones that which lives longest."""
    return sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].bytes, lifetimes[i].first - lifetimes[i].last))


def by_breadth(lifetimes: Sequence[Lifetime]) -> list[int]:
    """The call with the most bytes alive first, then the next; of those alive at a call the largest first."""
    broadest = {call: live_bytes(lifetimes, call) for a in lifetimes for call in (a.first, a.last)}
    order: dict[int, None] = {}
    for call in sorted(broadest, key=lambda call: -broadest[call]):
        order.update((i, None) for i in by_size(lifetimes) if lifetimes[i].first <= call <= lifetimes[i].last)
    return list(order)


def by_area(lifetimes: Sequence[Lifetime]) -> list[int]:
    """Bytes times calls: what takes up the most of the picture first."""
    return sorted(range(len(lifetimes)), key=lambda i: -lifetimes[i].bytes * (1 + _calls(lifetimes[i])))


def by_duration(lifetimes: Sequence[Lifetime]) -> list[int]:
    """What lives longest first, so that the short ones find their gaps beside it."""
    return sorted(range(len(lifetimes)), key=lambda i: (-_calls(lifetimes[i]), -lifetimes[i].bytes))


def _calls(lifetime: Lifetime) -> int:
    return lifetime.last - lifetime.first


ORDERS: dict[str, Callable[[Sequence[Lifetime]], list[int]]] = {
    "size": by_size,
    "breadth": by_breadth,
    "area": by_area,
    "duration": by_duration,
}


# ---- places --------------------------------------------------------------------------------------------------------


def separate_layout(lifetimes: Sequence[Lifetime]) -> Layout:
    """The naive one: a buffer for each, one behind the other, and none is ever used twice."""
    offsets, end = [], 0
    for a in lifetimes:
        offsets.append(end)
        end += a.bytes
    return Layout(tuple(lifetimes), tuple(offsets), "separate")


def shared_layout(lifetimes: Sequence[Lifetime], orders: Sequence[str] = tuple(ORDERS)) -> Layout:
    """The smallest that these orders give; of equal ones the first.

    Never above `separate_layout`: what is placed begins at most where the last of its neighbours ends.
    """
    layouts = [Layout(tuple(lifetimes), _place(lifetimes, ORDERS[name](lifetimes)), name) for name in orders]
    best = min(layouts, key=lambda layout: layout.bytes)
    if pair := collision(best):
        raise RuntimeError(f"{pair[0]} and {pair[1]} lie on top of each other: the planner is wrong")
    return best


def _place(lifetimes: Sequence[Lifetime], order: Sequence[int]) -> tuple[int, ...]:
    """Offsets: each in turn takes the tightest gap among the placed ones that it meets, or goes behind them all."""
    offsets: dict[int, int] = {}
    for i in order:
        taken = [(at, at + lifetimes[j].bytes) for j, at in offsets.items() if lifetimes[i].meets(lifetimes[j])]
        offsets[i] = _tightest_gap(lifetimes[i].bytes, taken)
    return tuple(offsets[i] for i in range(len(lifetimes)))


def _tightest_gap(size: int, taken: list[tuple[int, int]]) -> int:
    """Where the smallest gap begins that holds `size` bytes between these (begin, end); else the end of them all."""
    best, best_gap, end = None, None, 0
    for begin, its_end in sorted(taken):
        gap = begin - end
        if gap >= size and (best_gap is None or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, its_end)
    return end if best is None else best


def collision(layout: Layout) -> tuple[Lifetime, Lifetime] | None:
    """Two that some call needs both and that share a byte; None if there are none, as there must be."""
    placed = sorted(zip(layout.offsets, layout.lifetimes, strict=True), key=lambda pair: pair[0])
    for i, (offset, a) in enumerate(placed):
        for other_offset, b in placed[i + 1 :]:
            if other_offset >= offset + a.bytes:
                break  # and so do all behind it
            if a.meets(b) and b.bytes:
                return a, b
    return None
