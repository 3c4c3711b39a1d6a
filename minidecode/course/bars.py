"""Numbers side by side as bars, each with its value: bytes, sectors, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .canvas import LETTER, Canvas
from .figure import Figure, single

WIDTH, LEFT, ROW = 440, 10, 46  # pixels


def draw_bars(
    values: Mapping[str, float],
    *,
    name: str,
    caption: str,
    alt: str,
    say: Callable[[float], str] = "{:,.0f}".format,
    point: str = "",
) -> Figure:
    """A bar for each value, from 0, the largest as wide as there is room. say: a value as text. point: the one that
    the figure is about, drawn dark."""
    canvas = Canvas(WIDTH, 8 + ROW * len(values))
    room = WIDTH - 2 * LEFT - max(len(say(v)) for v in values.values()) * LETTER - 8
    largest = max(values.values()) or 1
    for k, (label, value) in enumerate(values.items()):
        y, width = 8 + ROW * k, room * value / largest
        canvas.text(LEFT, y + 12, label, bold=label == point)
        canvas.cell(LEFT, y + 18, "strong" if label == point else "mid", width=width, height=18, tip=say(value))
        canvas.text(LEFT + width + 6, y + 32, say(value))
    return single(name, canvas, caption=caption, alt=alt)
