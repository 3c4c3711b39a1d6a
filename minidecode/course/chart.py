"""Axes on a canvas: lines and marked points at places by value, on logarithmic or even scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from .canvas import LETTER, Canvas

LEFT, TOP, BELOW, RIGHT, MARK = 54, 34, 44, 14, 18  # pixels: around the axes; a mark's side


@dataclass(frozen=True)
class Axis:
    """An axis: its label, its range, and its ticks: value -> word, or values."""

    name: str
    low: float
    high: float
    ticks: Mapping[float, str] | Sequence[float]
    log: bool = True

    def fraction(self, value: float) -> float:
        """How far along the axis a value lies, from 0 to 1. Raises ValueError for one beyond the ends."""
        low, high, at = (log10(v) if self.log else v for v in (self.low, self.high, value))
        part = (at - low) / (high - low)
        if not -1e-9 <= part <= 1 + 1e-9:
            raise ValueError(f"{value:g} lies outside of {self.low:g} to {self.high:g}, the axis of {self.name!r}")
        return part


class Chart:
    """A canvas with two axes; `canvas` is what a figure takes. Places outside of the axes are refused.

    notes: lines of text below them, for what marks mean.
    """

    def __init__(self, width: int, height: int, x: Axis, y: Axis, notes: Sequence[str] = ()):
        self.canvas, self.x, self.y = Canvas(width, height + 18 * len(notes)), x, y
        self.width, self.height = width - LEFT - RIGHT, height - TOP - BELOW
        c, bottom = self.canvas, TOP + self.height
        for value, word in _ticks_of_axis(x):
            at = self.to_pixels(value, y.low)[0]
            c.line(at, bottom, at, bottom + 4)
            c.text(at, bottom + 17, word, anchor="middle")
        for value, word in _ticks_of_axis(y):
            at = self.to_pixels(x.low, value)[1]
            c.line(LEFT - 4, at, LEFT, at)
            c.text(LEFT - 7, at + 4.5, word, anchor="end")
        c.line(LEFT, TOP, LEFT, bottom)
        c.line(LEFT, bottom, LEFT + self.width, bottom)
        c.text(8, 18, y.name)
        c.text(width - RIGHT, height - 8, x.name, anchor="end")
        for k, line in enumerate(notes):
            c.text(8, height + 12 + 18 * k, line)

    def to_pixels(self, x: float, y: float) -> tuple[float, float]:
        """A point in pixels."""
        return LEFT + self.width * self.x.fraction(x), TOP + self.height * (1 - self.y.fraction(y))

    def line(self, points: Sequence[tuple[float, float]], *, thick: float = 2, dashed: bool = False) -> None:
        """Straight from point to point."""
        placed = [self.to_pixels(*p) for p in points]
        for (x1, y1), (x2, y2) in pairwise(placed):
            self.canvas.line(x1, y1, x2, y2, thick=thick, dashed=dashed)

    def mark(self, x: float, y: float, letter: str, fill: str = "strong", *, tip: str = "") -> None:
        """A small box with a letter, which a list below the chart explains."""
        at, up = self.to_pixels(x, y)
        self.canvas.cell(at - MARK / 2, up - MARK / 2, fill, letter, width=MARK, height=MARK, tip=tip)

    def word(self, x: float, y: float, words: str, *, anchor: str = "start", offset: float = 0) -> None:
        """Writes words above a place, `offset` pixels to its right, but inside the canvas."""
        at, up = self.to_pixels(x, y)
        at, wide = at + offset, LETTER * len(words)
        if anchor == "start":
            at = min(at, self.canvas.width - wide - 2)
        elif anchor == "end":
            at = max(at, wide + 2)
        self.canvas.text(at, up - 6, words, anchor=anchor)


def _ticks_of_axis(axis: Axis):
    return axis.ticks.items() if isinstance(axis.ticks, Mapping) else [(t, f"{t:g}") for t in axis.ticks]
