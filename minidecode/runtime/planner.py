"""Planned memory: the lifetimes of a step's intermediates, and their offsets in one buffer (LightSeq, section 2.3).

The op `assign_offsets` finds the offsets. Whatever implements it, its offsets are checked here before a step runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..device.user_functions import UserOp, describe_function
from ..errors import OptionError, quoted
from ..ops import ALIGNED


@dataclass(frozen=True)
class Lifetime:
    """An array that must keep its bytes from call `first`, which writes it, to call `last`, which reads it last.

    A call writes results while it still reads its arguments, so both ends count.
    """

    name: str
    bytes: int
    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether some call needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Layout:
    """An offset for each lifetime."""

    lifetimes: tuple[Lifetime, ...]
    offsets: tuple[int, ...]
    placed_by: str  # the code that found the offsets

    @property
    def bytes(self) -> int:
        """What the arena must hold."""
        return max((o + a.bytes for o, a in zip(self.offsets, self.lifetimes, strict=True) if a.bytes), default=0)

    @property
    def separate_bytes(self) -> int:
        """What they would take with a buffer each."""
        return sum(a.bytes for a in self.lifetimes)

    @property
    def lower_bound(self) -> int:
        """What no layout can go below: the largest set that is alive at one call. One lifetime begins there."""
        return max((sum(b.bytes for b in self.lifetimes if b.first <= a.first <= b.last) for a in self.lifetimes),
                   default=0)  # fmt: skip


def lay_out(lifetimes: Sequence[Lifetime], place: Callable[..., np.ndarray]) -> Layout:
    """An offset for each lifetime, in whole cache lines, by `assign_offsets` or its replacement.

    Raises OptionError, before anything is computed, where a user function gives offsets that no step could
    use.
    """
    if not lifetimes:
        return Layout((), (), describe_function(place))
    columns = np.array([(a.bytes, a.first, a.last) for a in lifetimes], np.int64).T.copy()
    given = columns.copy()
    offset_X = place(*given)
    if not np.array_equal(given, columns):
        what = "changes its inputs"
    elif offset_X.shape != columns[0].shape:
        what = f"gives {offset_X.size} places for {len(lifetimes)} arrays"
    else:
        layout = Layout(tuple(lifetimes), tuple(offset_X.tolist()), describe_function(place))
        what = fault_of_layout(layout)
    if what is None:
        return layout
    if isinstance(place, UserOp):
        check = f"minidecode check arena {quoted(place.place)}"
        raise OptionError(f"plan: arena={place.place} {what}: {check} finds a small case")
    raise RuntimeError(f"{describe_function(place)} {what}")


def fault_of_layout(layout: Layout) -> str | None:
    """Why no step could use these offsets, in words; None if there is nothing against them."""
    for offset, a in zip(layout.offsets, layout.lifetimes, strict=True):
        if offset < 0 or offset % ALIGNED:
            return f"puts {a.name} at {offset}, which is no multiple of {ALIGNED} from 0 up"
    if pair := find_collision(layout):
        return f"puts {pair[0].name} and {pair[1].name} on top of each other, and some call needs both"
    if layout.bytes > layout.separate_bytes:
        return f"takes {layout.bytes:,} bytes, where a buffer for each takes {layout.separate_bytes:,}"
    return None


def find_collision(layout: Layout) -> tuple[Lifetime, Lifetime] | None:
    """Two that some call needs both and that share a byte; None if there are none, as there must be."""
    placed = sorted(zip(layout.offsets, layout.lifetimes, strict=True), key=lambda pair: pair[0])
    for i, (offset, a) in enumerate(placed):
        for other_offset, b in placed[i + 1 :]:
            if other_offset >= offset + a.bytes:
                break  # and so do all behind it
            if a.overlaps(b) and b.bytes:
                return a, b
    return None
