"""A machine's roofline with work on it: the most operations per second, by how often each byte is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from ..bench.machines import Machine
from .chart import Axis, Chart
from .figure import Figure, single


@dataclass(frozen=True)
class Spot:
    """Work: a letter or two for its mark, what it is, operations per byte, and per second; None: on the roof."""

    letter: str
    what: str
    per_byte: float
    per_second: float | None = None
    fill: str = "strong"


def roof_at(machine: Machine, per_byte: float) -> float:
    """Operations per second that the machine reaches at most, with this many operations on each byte."""
    return min(machine.operations, machine.bandwidth * per_byte)


def draw_roofline(machine: Machine, spots: Sequence[Spot], *, name: str, caption: str, alt: str) -> Figure:
    """Marks of measured work are filled, of work that is put on the roof by its counts alone are empty."""
    reach = [s.per_byte for s in spots] + [machine.balance]
    heights = [s.per_second or roof_at(machine, s.per_byte) for s in spots] + [machine.operations]
    x_low, x_high = 2.0 ** floor(_log2(min(reach)) - 0.5), 2.0 ** ceil(_log2(max(reach)) + 0.5)
    y_low = min(*heights, roof_at(machine, x_low)) / 1.3
    x_ticks = {2.0**k: f"{2.0**k:g}" for k in range(int(_log2(x_low)), int(_log2(x_high)) + 1, 2)}
    y_ticks = {10.0**k: _in_words(10.0**k) for k in range(ceil(log10(y_low)), floor(log10(2 * max(heights))) + 1)}
    chart = Chart(
        460, 300,
        Axis("operations for each byte", x_low, x_high, x_ticks),
        Axis("operations a second", y_low, 2 * max(heights), y_ticks),
        [f"{s.letter}: {s.what}" for s in spots if s.what],
    )  # fmt: skip
    corner = machine.balance, machine.operations
    chart.line([(x_low, roof_at(machine, x_low)), corner, (x_high, machine.operations)], thick=3)
    chart.line([(machine.balance, y_low), corner], thick=1, dashed=True)
    chart.word(x_high, machine.operations, f"at most {_in_words(machine.operations)}", anchor="end")
    chart.word(machine.balance, y_low, f"{machine.balance:.2g} a byte", offset=6)
    for s in spots:
        at = s.per_second or roof_at(machine, s.per_byte)
        chart.mark(s.per_byte, at, s.letter, s.fill if s.per_second else "paper", tip=s.what)
    return single(name, chart.canvas, caption=caption, alt=alt)


def _log2(x: float) -> float:
    return log10(x) / log10(2)


def _in_words(number: float) -> str:
    """100 G for 1e11."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if number >= 0.999 * size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"
