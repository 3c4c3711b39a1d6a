"""A ladder of optimizations as bars: how long each rung takes, and with what."""

from __future__ import annotations

from ..bench.ladder import Ladder, Step
from .canvas import MOST_WIDE, Canvas
from .figure import Figure, single

LEFT, ROW, BAR = 8, 42, 18  # pixels
PARTS = {  # what stages are drawn together -> fill, stages
    "products": ("strong", ("products",)),
    "attention": ("mid", ("attention",)),
    "search, ban": ("mark", ("search", "n-gram ban")),
    "other ops": ("pale", ("between products", "cache moves")),
    "Python, planning, text": ("paper", ("no op (Python)", "planning memory", "reading and text")),
}


def draw_ladder(ladder: Ladder, *, name: str, caption: str, alt: str) -> Figure:
    """A bar for each rung that ran, its seconds by what they went to. What `minidecode ladder` finds, or recorded.

    All parts of all bars are to one scale, that of the second longest bar: the first rung is often ten times as long as
    all others, and is cut where there is no more room, and says so.
    """
    steps = ladder.measured
    longest = sorted(s.seconds[0] for s in steps)[-2 if len(steps) > 1 else -1]
    canvas = Canvas(MOST_WIDE, ROW * len(steps) + 56)
    scale = (MOST_WIDE - 2 * LEFT) / longest
    for k, step in enumerate(steps):
        _draw_rung(canvas, step, 4 + ROW * k, scale)
    first, second = list(PARTS)[:3], list(PARTS)[3:]
    for line, parts in enumerate((first, second)):
        canvas.legend(LEFT, ROW * len(steps) + 22 + 22 * line, {PARTS[p][0]: p for p in parts})
    return single(name, canvas, caption=caption, alt=alt)


def _draw_rung(canvas: Canvas, step: Step, y: float, scale: float) -> None:
    """One bar, and above it the rung's name, seconds and factor."""
    seconds, room = step.seconds[0], MOST_WIDE - 2 * LEFT
    cut = seconds * scale > room + 1
    left_out = "" if step.carried else ", not carried on"
    canvas.text(LEFT, y + 12, step.name + left_out, bold=step.carried)
    factor = f", {step.speedup:.2f}x" if step.builds_on else ""
    canvas.text(MOST_WIDE - LEFT, y + 12, f"{seconds:.3f} s{factor}" + ", cut" * cut, anchor="end")
    x, end, whole = LEFT, LEFT + min(seconds * scale, room), sum(step.shares.values())
    for part, (fill, stages) in PARTS.items():
        share = sum(step.shares.get(stage, 0.0) for stage in stages) / whole
        width = min(share * seconds * scale, end - x)
        tip = f"{part}: {share:.0%}, {share * seconds:.3f} s"
        canvas.cell(x, y + 17, fill, width=width, height=BAR, tip=tip)
        x += width
    if cut:  # told by shape too
        canvas.line(x - 14, y + 17 + BAR + 2, x - 6, y + 15, thick=3)
        canvas.line(x - 8, y + 17 + BAR + 2, x, y + 15, thick=3)
