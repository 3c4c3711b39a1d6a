"""Weights rounded to a few steps: with a scale for all outputs, and with a scale for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .canvas import Canvas
from .figure import Figure, scrub

LEFT, WIDE, TOP, LANE = 14, 400, 58, 96  # pixels


def draw_rounding(outputs: Mapping[str, Sequence[float]], steps: int, *, name: str, caption: str, alt: str) -> Figure:
    """A frame with one scale and one with a scale for each output: its weights above a line, below the steps that they
    are rounded to.

    outputs: the weights of each. steps: how many there are on each side of zero.
    """
    largest = max(abs(w) for weights in outputs.values() for w in weights)
    one = dict.fromkeys(outputs, largest)
    each = {title: max(map(abs, weights)) for title, weights in outputs.items()}
    frames = []
    for title, reach in (("One scale for all", one), ("A scale for each output", each)):
        used = [len({round(w / reach[o] * steps) for w in weights}) for o, weights in outputs.items()]
        counts = ", ".join(f"{o} {n} different values" for o, n in zip(outputs, used, strict=True))
        frames.append((f"{title}: {counts}.", _draw_frame(title, outputs, reach, steps)))
    return scrub(name, frames, caption=caption, alt=alt)


def _draw_frame(title: str, outputs, reach, steps: int) -> Canvas:
    canvas = Canvas(WIDE + 2 * LEFT, TOP + LANE * len(outputs) + 20)
    canvas.text(LEFT, 20, title, bold=True)
    for k, (output, weights) in enumerate(outputs.items()):
        y, widest = TOP + LANE * k, max(map(abs, weights))
        step = reach[output] / steps

        def at(value: float, widest: float = widest) -> float:
            return LEFT + WIDE / 2 + value / widest * (WIDE / 2 - 12)

        canvas.text(LEFT, y - 12, f"{output}: from {-widest:g} to {widest:g}")
        canvas.line(LEFT, y + 30, LEFT + WIDE, y + 30)
        for s in range(-steps, steps + 1):
            if abs(s * step) <= widest * 1.01:
                canvas.line(at(s * step), y + 24, at(s * step), y + 36, thick=1.5)
        for w in weights:
            rounded = round(w / step) * step
            canvas.line(at(w), y + 12, at(rounded), y + 44)
            canvas.cell(at(w) - 5, y + 2, "mid", width=10, height=10, tip=f"{w:g}")
            canvas.cell(at(rounded) - 5, y + 44, "mark", width=10, height=10, tip=f"becomes {rounded:.3g}")
    canvas.legend(LEFT, TOP + LANE * len(outputs) + 6, {"mid": "weight", "mark": "rounded"})
    return canvas
