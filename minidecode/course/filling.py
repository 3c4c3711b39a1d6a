"""A key/value cache as it fills: what a step computes and writes, and what it reads again."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT, TOP, GAP = 46, 26, 66, 26, 12  # pixels


def draw_filling(prompt: Sequence[str], said: Sequence[str], *, name: str, caption: str, alt: str) -> Figure:
    """A frame for the prompt and one for each word that is said: its keys and values join those that are kept."""
    text, N = [*prompt, *said], len(prompt)
    spans = [(0, N), *((m, m + 1) for m in range(N, len(text)))]
    frames = [(_label_frame(k, *span), _draw_frame(text, *span)) for k, span in enumerate(spans)]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(step: int, begin: int, end: int) -> str:
    if step == 0:
        return f"The prompt: {end} positions are computed and kept."
    return f"Step {step}: 1 position is computed, and {begin} are there already."


def _draw_frame(text: Sequence[str], begin: int, end: int) -> Canvas:
    canvas = Canvas(LEFT + WIDTH * len(text) + 8, TOP + 3 * (HEIGHT + GAP) + 30)
    for k, part in enumerate(("text", "keys", "values")):
        y = TOP + k * (HEIGHT + GAP)
        canvas.text(8, y + 18, part, bold=True)
        for m, word in enumerate(text):
            fill = "mark" if begin <= m < end else "mid" if m < begin else "paper"
            what = "computed now" if begin <= m < end else "kept" if m < begin else "room"
            shown = "" if m >= end else word if k == 0 else f"{part[0]}{m}"
            canvas.cell(LEFT + WIDTH * m, y, fill, shown, width=WIDTH, height=HEIGHT, tip=f"{part} {m}: {what}")
    canvas.legend(LEFT, TOP + 3 * (HEIGHT + GAP) + 18, {"mark": "computed now", "mid": "kept", "paper": "room"})
    return canvas
