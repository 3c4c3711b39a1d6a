"""One matrix of weights and the rows that are multiplied by it: what is read once, and how often it is used."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

CELL, LEFT, TOP, BAR, ROOM = 34, 8, 46, 16, 330  # pixels; ROOM: the longest bar


def draw_reuse(inputs: int, outputs: int, rows: Sequence[int], *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each number of rows: the matrix, each weight with how often it is used; below, weights read and
    multiplications as bars to one scale."""
    frames = [(_label_frame(inputs * outputs, r), _draw_frame(inputs, outputs, r, max(rows))) for r in rows]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(weights: int, rows: int) -> str:
    return f"{rows} row{'s' * (rows > 1)}: {weights} weights are read, {weights * rows} multiplications are done."


def _draw_frame(inputs: int, outputs: int, rows: int, most: int) -> Canvas:
    tall = CELL * max(inputs, most)
    canvas = Canvas(LEFT + CELL * (inputs + outputs) + 80, TOP + tall + 2 * (BAR + 30) + 8)
    canvas.text(LEFT, 20, f"{rows} row{'s' * (rows > 1)}", bold=True)
    for r in range(rows):
        canvas.row(LEFT, TOP + CELL * r, [""] * inputs, "pale", width=CELL, height=CELL - 6)
    x = LEFT + CELL * inputs + 60
    canvas.line(x - 48, TOP + CELL * inputs / 2, x - 12, TOP + CELL * inputs / 2, thick=2, arrow=True)
    canvas.text(x, 20, "weights", bold=True)
    for d in range(inputs):
        tips = [f"read once, used {rows} times"] * outputs
        canvas.row(x, TOP + CELL * d, [f"{rows}x"] * outputs, "strong", width=CELL, height=CELL, tips=tips)
    y, weights = TOP + tall + 24, inputs * outputs
    for words, value, fill in (("weights read", weights, "strong"), ("multiplications", weights * rows, "mark")):
        canvas.text(LEFT, y, f"{words}: {value}")
        canvas.cell(LEFT, y + 6, fill, width=ROOM * value / (weights * most), height=BAR)
        y += BAR + 30
    return canvas
