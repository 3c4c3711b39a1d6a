"""The k-th largest of some scores without a sort: a threshold is guessed, what reaches it is counted."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

LEFT, TOP, BAR, TALL, WIDE = 12, 34, 34, 170, 300  # pixels: a bar's width, the height of the range, the least width


def draw_halving(scores: Sequence[int], k: int, top: int, *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each guess: the scores as bars, the range that is left, the guess as a line, and what reaches it.

    scores: integers from 0 to `top`.
    """
    low, high, frames = 0, top, []
    while low < high:
        guess = (low + high + 1) // 2
        many = sum(s >= guess for s in scores)
        verdict = f"{many} of {len(scores)} reach {guess}: the threshold is {'not lower' if many >= k else 'lower'}."
        frames.append((f"Range {low} to {high}. {verdict}", _draw_frame(scores, low, high, guess, top)))
        low, high = (guess, high) if many >= k else (low, guess - 1)
    many = sum(s >= low for s in scores)
    frames.append((f"Only {low} is left, and {many} scores reach it.", _draw_frame(scores, low, high, low, top)))
    return scrub(name, frames, caption=caption, alt=alt)


def _draw_frame(scores, low: int, high: int, guess: int, top: int) -> Canvas:
    canvas = Canvas(max(WIDE, 2 * LEFT + BAR * len(scores) + 64), TOP + TALL + 62)
    scale, end = TALL / (top + 1), LEFT + BAR * len(scores)

    def height(value: float) -> float:
        return TOP + TALL - scale * value

    canvas.text(LEFT, 20, f"guess {guess}", bold=True)
    canvas.cell(end + 8, height(high + 1), "pale", width=14, height=scale * (high + 1 - low), tip="what is left")
    canvas.text(end + 28, height(high + 1) + 11, high, role="faint")
    if high > low:
        canvas.text(end + 28, height(low), low, role="faint")
    for k, score in enumerate(scores):
        fill = "mark" if score >= guess else "mid"
        canvas.cell(LEFT + BAR * k, height(score), fill, width=BAR - 6, height=scale * score, tip=f"score {score}")
        canvas.text(LEFT + BAR * k + BAR / 2 - 3, TOP + TALL + 16, score, anchor="middle")
    canvas.line(LEFT - 6, height(guess), end + 22, height(guess), thick=2, dashed=True)
    canvas.legend(LEFT, TOP + TALL + 48, {"mark": "reaches it", "mid": "does not", "pale": "range"})
    return canvas
