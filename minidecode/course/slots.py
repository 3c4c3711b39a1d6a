"""A cache of a few slots that are used again: which positions lie where, and what a step overwrites."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT = 46, 24, 62  # pixels


def draw_slots(
    words: Sequence[str], log: Sequence[Sequence[int | None]], *, name: str, caption: str, alt: str
) -> Figure:
    """A frame for each step of the log: the position that lies in each slot, None where nothing was written yet.

    What differs from the step before is what the step wrote. words: the text, a word for each position.
    """
    frames, before = [], [None] * len(log[0])
    for slots in log:
        held = [p for p in slots if p is not None]
        written = [m for m, p in enumerate(slots) if p != before[m]]
        canvas = Canvas(LEFT + WIDTH * len(words) + 10, 152)
        canvas.text(8, 41, "text")
        seen = ["strong" if p in held else "pale" if p < max(held) else "paper" for p in range(len(words))]
        label = [w if p <= max(held) else "" for p, w in enumerate(words)]
        canvas.row(LEFT, 24, label, seen, width=WIDTH, height=HEIGHT)
        for p in range(len(words)):
            canvas.text(LEFT + WIDTH * (p + 0.5), 16, p, anchor="middle", role="faint")
        canvas.text(8, 93, "slots")
        fills = ["mark" if m in written else "paper" if p is None else "strong" for m, p in enumerate(slots)]
        kept = ["" if p is None else words[p] for p in slots]
        canvas.row(LEFT, 76, kept, fills, width=WIDTH, height=HEIGHT)
        for m in range(len(slots)):
            canvas.text(LEFT + WIDTH * (m + 0.5), 68, m, anchor="middle", role="faint")
        canvas.legend(LEFT, 138, {"mark": "written now", "strong": "held", "pale": "gone"})
        captions = ", ".join(_caption_of_step(m, slots[m], before[m]) for m in written)
        frames.append((f"Position {max(held)}: {captions}.", canvas))
        before = list(slots)
    return scrub(name, frames, caption=caption, alt=alt)


def _caption_of_step(slot: int, position: int | None, old: int | None) -> str:
    return f"{position} into slot {slot}" + (f", over {old}" if old is not None else "")
