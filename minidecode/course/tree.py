"""A beam search as it is stored: the tree of candidates above, below it the table that holds the tree in an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..runtime.trace import FATES, TraceStep
from .canvas import LETTER, Canvas
from .figure import Figure, scrub

COLUMN, NODE, ROW, LEFT, TOP = 116, 88, 30, 46, 40  # pixels
FILL = {"runs": "strong", "ends": "mark", "refused": "pale", "dropped": "pale"}


def draw_beams(steps: Sequence[TraceStep], word: Callable[[int], str], *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each step more: its candidates, best on top, and which beam each becomes.

    steps: one sentence's, of `generate(..., trace=True).trace.of(0)`, or made by a search of your own. Up to 3 steps
    fit a telephone. word(id): what to write for a token.
    """
    frames = [(_label_frame(step, word), _draw_frame(steps, shown, word)) for shown, step in enumerate(steps, 1)]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(step: TraceStep, word) -> str:
    """What happens in a step, in words."""
    captions = [
        f"{word(c.token)} after beam {c.parent} ({c.score:g}) "
        + (f"becomes beam {c.beam}" if c.beam is not None else FATES[c.fate])
        for c in step.candidates
    ]
    return f"Step {step.step + 1}: {'; '.join(captions)}."


def _draw_frame(steps: Sequence[TraceStep], shown: int, word) -> Canvas:
    rows, beams = max(len(s.candidates) for s in steps), max(_number_of_beams(s) for s in steps)
    table = TOP + ROW * rows + 34
    canvas = Canvas(LEFT + COLUMN * len(steps) + 8, table + ROW * beams + 44)
    ends = {0: (42.0, TOP + ROW * rows / 2)}  # running beam -> where the line to its children starts
    canvas.text(4, ends[0][1] + 4, "text", bold=True)
    for k, step in enumerate(steps[:shown]):
        x = LEFT + COLUMN * k + 24
        canvas.text(x, 22, f"step {step.step + 1}", bold=k == shown - 1)
        below = {}
        for rank, c in enumerate(step.candidates):
            y = TOP + ROW * rank
            alive = c.beam is not None or c.fate == "ends"
            canvas.line(*ends[c.parent], x, y + 11, thick=2 if alive else 1, dashed=not alive)
            words = f"{_short_word(word(c.token))} {c.score:g}"
            canvas.cell(x, y, FILL[c.fate], words, width=NODE, height=22, tip=f"{word(c.token)}: {FATES[c.fate]}")
            if c.beam is not None:
                below[c.beam] = (x + NODE, y + 11)
        ends = below or ends
        _column_of_table(canvas, x, table, step, word)
    for w in range(beams):
        canvas.text(4, table + ROW * w + 16, f"w = {w}")
    canvas.text(4, table - 10, "the array: parent, token")
    canvas.legend(
        8, table + ROW * beams + 26, {"strong": "goes on", "mark": "finished", "pale": "dropped", "mid": "of another"}
    )
    return canvas


def _column_of_table(canvas: Canvas, x: float, y: float, step: TraceStep, word) -> None:
    """For each beam whom it continues, and by what."""
    for c in step.candidates:
        if c.beam is not None:
            fills, row = ["mid" if c.parent != c.beam else "paper", "paper"], y + ROW * c.beam
            canvas.cell(x, row, fills[0], c.parent, width=22, height=22, tip=f"beam {c.beam} continues beam {c.parent}")
            canvas.cell(x + 22, row, fills[1], _short_word(word(c.token)), width=NODE - 22, height=22)


def _number_of_beams(step: TraceStep) -> int:
    return 1 + max((c.beam for c in step.candidates if c.beam is not None), default=0)


def _short_word(word: str) -> str:
    most = int((NODE - 30) / LETTER)
    return word if len(word) <= most else word[: most - 1] + "…"
