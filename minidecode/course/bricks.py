"""A cache as bricks, one for each position that a row holds: copies among them, and where a beam finds its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT, GAP = 46, 24, 64, 54  # pixels: a brick, what stands before a strip, what a panel's words take


@dataclass
class Strip:
    """Positions that lie side by side: what they say, what is stored for each (keys and values), where they begin."""

    name: str
    words: Sequence[str]
    stored_MX: np.ndarray
    first: int = 0


def draw_bricks(
    stages: Sequence[tuple[str, Mapping[str, Sequence[Strip]]]], *, name: str, caption: str, alt: str
) -> Figure:
    """A frame for each stage: a label, and panels of strips by their titles.

    A brick that holds, bit by bit, what a brick above it in its panel holds for the same position is a copy.
    """
    rows = {title: max(len(panels[title]) for _, panels in stages) for title in stages[0][1]}
    across = max(s.first + len(s.words) for _, panels in stages for strips in panels.values() for s in strips)
    width = LEFT + WIDTH * across + 10
    height = sum(GAP + HEIGHT * n for n in rows.values()) + 34
    frames = []
    for label, panels in stages:
        canvas, y = Canvas(width, height), 0
        for title, strips in panels.items():
            _draw_panel(canvas, y, title, strips)
            y += GAP + HEIGHT * rows[title]
        canvas.legend(LEFT, y + 14, {"strong": "held first", "pale": "a copy"})
        frames.append((label, canvas))
    return scrub(name, frames, caption=caption, alt=alt)


def count_copies(strips: Sequence[Strip]) -> int:
    """Bricks that hold what one above them holds for the same position."""
    return sum(map(sum, _find_copies(strips)))


def _find_copies(strips: Sequence[Strip]) -> list[list[bool]]:
    seen: set[tuple[int, bytes]] = set()
    copied = []
    for strip in strips:
        held = [(strip.first + m, stored_X.tobytes()) for m, stored_X in enumerate(strip.stored_MX)]
        copied.append([brick in seen for brick in held])
        seen.update(held)
    return copied


def _draw_panel(canvas: Canvas, y: float, title: str, strips: Sequence[Strip]) -> None:
    canvas.text(8, y + 20, title, bold=True)
    for k, (strip, copies) in enumerate(zip(strips, _find_copies(strips), strict=True)):
        at = y + 30 + HEIGHT * k
        canvas.text(8, at + 17, strip.name)
        fills = ["pale" if copy else "strong" for copy in copies]
        captions = zip(strip.words, copies, strict=True)
        tips = [f"{strip.name}, position {strip.first + m}: {w}{', a copy' * c}" for m, (w, c) in enumerate(captions)]
        canvas.row(LEFT + WIDTH * strip.first, at, strip.words, fills, width=WIDTH, height=HEIGHT, tips=tips)
    bricks, copied = sum(len(s.words) for s in strips), count_copies(strips)
    held = sum(s.stored_MX.nbytes for s in strips)
    canvas.text(canvas.width - 10, y + 20, f"{bricks} bricks, {copied} copies: {held} bytes", anchor="end")


def draw_lookups(
    words_RT: Sequence[Sequence[str]], indirection_RT: np.ndarray, *, name: str, caption: str, alt: str
) -> Figure:
    """What each row wrote, a frame for each row that reads; below, its row of the table: position t lies in row
    source[r, t]."""
    R, T = indirection_RT.shape
    frames = []
    for r in range(R):
        canvas = Canvas(max(LEFT + WIDTH * T + 10, 270), 30 + HEIGHT * R + 70)
        canvas.text(8, 20, "written, and never moved", bold=True)
        for row in range(R):
            y = 30 + HEIGHT * row
            canvas.text(8, y + 17, f"row {row}")
            fills = ["strong" if indirection_RT[r, t] == row else "pale" for t in range(T)]
            canvas.row(LEFT, y, words_RT[row], fills, width=WIDTH, height=HEIGHT)
        y = 30 + HEIGHT * R
        canvas.text(8, y + 26, f"the table of row {r}: which row", bold=True)
        canvas.text(8, y + 53, "in row")
        canvas.row(LEFT, y + 36, indirection_RT[r].tolist(), "mark", width=WIDTH, height=HEIGHT)
        label = " ".join(words_RT[indirection_RT[r, t]][t] for t in range(T))
        frames.append((f'Row {r} reads "{label}".', canvas))
    return scrub(name, frames, caption=caption, alt=alt)
