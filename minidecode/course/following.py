"""Beams over a cache: a step's beams continue those of the step before, and their rows of the cache must follow."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

PROMPT, WIDTH, HEIGHT, LEFT, GAP, TOP, ROW = 58, 45, 26, 58, 62, 40, 40  # pixels


def draw_following(
    words_TW: Sequence[Sequence[str]], parents_TW: Sequence[Sequence[int]], *, name: str, caption: str, alt: str
) -> Figure:
    """A frame for each step: the rows before it, the rows after it, and a line from each row to those that continue it.

    words_TW: what each beam says in a step. parents_TW: which beam it continues.
    """
    before, frames, T = [[] for _ in words_TW[0]], [], len(words_TW)
    for t, (words_W, parents_W) in enumerate(zip(words_TW, parents_TW, strict=True)):
        after = [[*before[parent], word] for word, parent in zip(words_W, parents_W, strict=True)]
        frames.append((_label_frame(t, words_W, parents_W), _draw_frame(before, after, parents_W, T)))
        before = after
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(t: int, words_W, parents_W) -> str:
    said = [
        f"beam {w} continues beam {p} by {word}" for w, (word, p) in enumerate(zip(words_W, parents_W, strict=True))
    ]
    return f"Step {t + 1}: {', '.join(said)}."


def _draw_frame(before, after, parents_W, T: int) -> Canvas:
    right = LEFT + PROMPT + WIDTH * (T - 1) + GAP
    canvas = Canvas(right + PROMPT + WIDTH * T + 8, TOP + ROW * len(after) + 28)
    canvas.text(LEFT, 22, "before", bold=True)
    canvas.text(right, 22, "after", bold=True)
    for w, (words, parent) in enumerate(zip(after, parents_W, strict=True)):
        y, moved = TOP + ROW * w, parent != w
        canvas.text(8, y + 18, f"row {w}")
        _draw_strip(canvas, LEFT, y, before[w], ["pale"] * (1 + len(before[w])))
        fill = "strong" if moved else "mid"
        _draw_strip(canvas, right, y, words, [fill] * len(words) + ["mark"])
        begin = LEFT + PROMPT + WIDTH * len(before[parent])
        canvas.line(begin + 2, TOP + ROW * parent + HEIGHT / 2, right - 3, y + HEIGHT / 2, thick=1 + moved, arrow=True)
    meanings = {"mark": "new word", "strong": "from another row", "mid": "stays"}
    canvas.legend(8, TOP + ROW * len(after) + 16, meanings)
    return canvas


def _draw_strip(canvas: Canvas, x: float, y: float, words: Sequence[str], fills: Sequence[str]) -> None:
    """The prompt as one brick, then a brick for each word."""
    canvas.cell(x, y, fills[0], "prompt", width=PROMPT, height=HEIGHT)
    canvas.row(x + PROMPT, y, words, fills[1:], width=WIDTH, height=HEIGHT)
