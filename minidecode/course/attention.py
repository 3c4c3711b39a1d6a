"""Attention as a picture: the newest word looks back, and each word counts by its share."""

from __future__ import annotations

from collections.abc import Sequence

from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT, TOP, APART = 66, 28, 8, 36, 110  # pixels


def draw_attention(
    words: Sequence[str], shares_MM: Sequence[Sequence[float]], *, name: str, caption: str, alt: str
) -> Figure:
    """A frame for each word: a line to each word that it looks at, as thick as the share of what it takes from there.

    shares_MM: row m has the shares of positions 0 to m, which sum to 1.
    """
    frames = [(_label_frame(words, shares_MM[m], m), _draw_frame(words, shares_MM[m], m)) for m in range(len(words))]
    return scrub(name, frames, caption=caption, alt=alt)


def _label_frame(words, shares_M, m: int) -> str:
    seen = ", ".join(f"{words[k]} {shares_M[k]:.0%}" for k in range(m + 1))
    return f"Word {m + 1}, {words[m]}, takes from {seen}."


def _draw_frame(words, shares_M, m: int) -> Canvas:
    canvas = Canvas(max(2 * LEFT + WIDTH * len(words), 330), TOP + APART + HEIGHT + 44)
    canvas.text(LEFT, 20, "what is there to look at", bold=True)
    at = LEFT + WIDTH * (m + 0.5)
    for k, word in enumerate(words):
        x = LEFT + WIDTH * k
        if k <= m:
            canvas.line(at, TOP + APART, x + WIDTH / 2, TOP + HEIGHT + 20, thick=0.5 + 10 * shares_M[k])
            canvas.text(x + WIDTH / 2, TOP + HEIGHT + 15, f"{shares_M[k]:.0%}", anchor="middle")
        fill, tip = ("mid", f"share {shares_M[k]:.2f}") if k <= m else ("paper", "not there yet")
        canvas.cell(x, TOP, fill, word if k <= m else "", width=WIDTH, height=HEIGHT, tip=tip)
    canvas.cell(at - WIDTH / 2, TOP + APART, "strong", words[m], width=WIDTH, height=HEIGHT, tip="the newest word")
    canvas.legend(LEFT, TOP + APART + HEIGHT + 30, {"strong": "looks", "mid": "is seen", "paper": "to come"})
    return canvas
