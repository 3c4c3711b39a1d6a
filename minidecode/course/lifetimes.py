"""Lifetimes as bricks: calls from left to right, places in one block of memory from bottom to top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..reference.arena import rounded_to_alignment
from ..runtime.planner import Layout, Lifetime
from .canvas import LETTER, MOST_WIDE, Canvas
from .figure import Figure, scrub, single

LEFT, GAP, TOP, TALL = 8, 18, 30, 240  # pixels; TALL: of the largest block


def draw_lifetimes(
    layouts: Mapping[str, Layout], *, name: str, caption: str, alt: str, calls: Sequence[str] | None = None
) -> Figure:
    """A panel for each layout, all to one scale. calls: the name of each call; then there is a frame for each.

    A brick that a call writes is marked, one that it reads or must leave alone is blue, one that is over is pale: the
    next may lie upon it. Without calls all bricks are shown at once. Names of up to 3 letters fit into one call.
    """
    if calls is None:
        return single(name, _draw_frame(layouts, None), caption=caption, alt=alt)
    arrays = next(iter(layouts.values())).lifetimes
    frames = [(_label_frame(arrays, k, call), _draw_frame(layouts, k)) for k, call in enumerate(calls)]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(arrays: Sequence[Lifetime], now: int, call: str) -> str:
    """What a call writes, and what must not be touched meanwhile."""
    written = ", ".join(a.name for a in arrays if a.first == now) or "nothing"
    kept = ", ".join(a.name for a in arrays if a.first < now <= a.last) or "nothing"
    alive = sum(int(rounded_to_alignment(a.bytes)) for a in arrays if a.first <= now <= a.last)
    return f"Call {now}, {call}: writes {written}; {kept} must stay; {alive} bytes alive."


def _draw_frame(layouts: Mapping[str, Layout], now: int | None) -> Canvas:
    count, most = len(layouts), max(layout.bytes for layout in layouts.values())
    calls = 1 + max(a.last for layout in layouts.values() for a in layout.lifetimes)
    wide = (MOST_WIDE - 2 * LEFT - GAP * (count - 1)) / count
    canvas = Canvas(MOST_WIDE, TOP + TALL + 62)
    for k, (title, layout) in enumerate(layouts.items()):
        x = LEFT + k * (wide + GAP)
        canvas.text(x, 18, title, bold=True)
        _draw_panel(canvas, layout, now, x, wide / calls, TALL / most)
        canvas.line(x, TOP + TALL, x + wide, TOP + TALL, thick=2)
        if now is not None:
            canvas.line(x + now * wide / calls, TOP + TALL + 2, x + (now + 1) * wide / calls, TOP + TALL + 2, thick=5)
        canvas.text(x, TOP + TALL + 20, f"{layout.bytes:,} bytes")
    roles = (
        {"mid": "an array"} if now is None else {"mark": "written", "mid": "kept", "pale": "over", "paper": "to come"}
    )
    canvas.legend(LEFT, TOP + TALL + 48, roles)
    return canvas


def _draw_panel(canvas: Canvas, layout: Layout, now: int | None, x: float, column: float, row: float) -> None:
    """The bricks of one layout. Those to come are drawn first, so that none hides what is there."""
    bricks = list(zip(layout.lifetimes, layout.offsets, strict=True))
    order = {"paper": 0, "pale": 1, "mid": 2, "mark": 3}
    for a, offset in sorted(bricks, key=lambda brick: order[_role_of_array(brick[0], now)]):
        role, width = _role_of_array(a, now), column * (1 + a.last - a.first)
        tall = row * int(rounded_to_alignment(a.bytes))
        word = a.name if len(a.name) * LETTER <= width and tall >= 14 else ""
        canvas.cell(
            x + column * a.first, TOP + TALL - row * offset - tall, role, word, width=width, height=tall,
            tip=f"{a.name}: {a.bytes} bytes at {offset}, calls {a.first} to {a.last}",
        )  # fmt: skip


def _role_of_array(a: Lifetime, now: int | None) -> str:
    if now is None or a.first < now <= a.last:
        return "mid"
    return "mark" if a.first == now else "pale" if a.last < now else "paper"


def layout_of(title: str, arrays: Mapping[str, tuple[int, int, int, int]]) -> Layout:
    """A layout by hand: name -> (bytes, first call, last call, offset)."""
    lifetimes = tuple(Lifetime(name, size, first, last) for name, (size, first, last, _) in arrays.items())
    return Layout(lifetimes, tuple(offset for *_, offset in arrays.values()), title)
