"""Threads that write a number each and then read a neighbour's: without a barrier, and with one."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

LEFT, TICK, READ, LANE, BAR, TOP = 78, 52, 62, 40, 26, 36  # pixels; READ: the width of a read


def draw_order(ticks: Sequence[int], *, name: str, caption: str, alt: str) -> Figure:
    """A frame without a barrier, where each thread reads at once, and one with, where it waits for the slowest.

    ticks: how long each thread takes to write its number. Thread t reads the number of thread t + 1, the last one that
    of thread 0.
    """
    too_soon = [ticks[(t + 1) % len(ticks)] > tick for t, tick in enumerate(ticks)]
    without = f"No barrier: {sum(too_soon)} of {len(ticks)} reads come before the number is written."
    with_one = "A barrier: all wait for the slowest, and each read finds its number."
    labels = (without, False), (with_one, True)
    frames = [(label, _draw_frame(ticks, too_soon, barrier)) for label, barrier in labels]
    return scrub(name, frames, caption=caption, alt=alt)


def _draw_frame(ticks, too_soon, barrier: bool) -> Canvas:
    end = LEFT + TICK * max(ticks)
    canvas = Canvas(end + READ + 14, TOP + LANE * len(ticks) + 34)
    canvas.text(LEFT, 22, "time", role="faint")
    canvas.line(LEFT + 40, 18, end + READ, 18, arrow=True)
    for t, tick in enumerate(ticks):
        y, done = TOP + LANE * t, LEFT + TICK * tick
        canvas.text(8, y + 18, f"thread {t}")
        canvas.cell(LEFT, y, "mark", f"writes {t}", width=TICK * tick, height=BAR, tip=f"writes number {t}")
        neighbour = (t + 1) % len(ticks)
        if barrier and done < end:
            canvas.cell(done, y, "pale", "waits" if end - done > 44 else "", width=end - done, height=BAR)
        wrong = too_soon[t] and not barrier
        tip = f"number {neighbour} is {'not ' * wrong}written"
        canvas.cell(end + 4 if barrier else done, y, "bad" if wrong else "mid", f"reads {neighbour}", width=READ,
                    height=BAR, tip=tip)  # fmt: skip
    if barrier:
        canvas.line(end + 2, TOP - 8, end + 2, TOP + LANE * len(ticks) - 6, thick=4)
    meanings = {"mark": "writes", "mid": "reads"} | ({"pale": "waits"} if barrier else {"bad": "too soon"})
    canvas.legend(8, TOP + LANE * len(ticks) + 20, meanings)
    return canvas
