"""One product of three matrices, bracketed in two ways: what each builds, what it keeps, what it multiplies."""

from __future__ import annotations

import numpy as np

from .canvas import LETTER, Canvas
from .figure import Figure, scrub

CELL, GAP, TOP, LEFT = 25, 18, 58, 8  # pixels


def draw_brackets(q_K: np.ndarray, w_KD: np.ndarray, h_ND: np.ndarray, *, name: str, caption: str, alt: str) -> Figure:
    """Scores of one head, q W h^T: a frame with keys built first, a frame with the query widened first.

    Numbers are shown as they are, so small integers look best.
    """
    (K, D), N = w_KD.shape, len(h_ND)
    q, w, h = q_K[None], w_KD, h_ND.T
    first = _draw_frame((q, "("), (w, ""), (h, ")"), (q, "pale"), (w @ h, "strong"), q @ (w @ h))
    second = _draw_frame(("(", q), (w, ")"), (h, ""), (q @ w, "mark"), (h, "strong"), (q @ w) @ h)
    keys = f"query (weights hidden): keys of {(w @ h).nbytes} bytes are kept for each head and layer"
    states = f"(query weights) hidden: hidden states of {h.nbytes} bytes are kept for all heads and layers"
    return scrub(
        name,
        [
            (f"{keys}; {K * N} multiplications a step.", first),
            (f"{states}; {K * D + D * N} multiplications a step.", second),
        ],
        caption=caption,
        alt=alt,
    )


def _draw_frame(*parts) -> Canvas:
    """Three factors with brackets among them; below, the two that the bracket leaves, and their product."""
    three, (left, left_fill), (right, right_fill), scores = parts[:3], *parts[3:]
    matrices = [next(p for p in part if isinstance(p, np.ndarray)) for part in three]
    tall = max(m.shape[0] for m in matrices)
    second_row = TOP + CELL * tall + 52
    wide = sum(m.shape[1] for m in matrices)
    canvas = Canvas(LEFT + CELL * wide + 5 * GAP, second_row + CELL * tall + 40)
    x = LEFT
    for part, name in zip(three, ("query", "weights", "hidden"), strict=True):
        for piece in part:
            if isinstance(piece, str):
                canvas.text(x + GAP / 2, TOP + CELL * tall / 2 + 8, piece, anchor="middle", size=24)
                x += GAP * bool(piece)
            else:
                x = _draw_matrix(canvas, x, TOP, tall, piece, "pale", name) + 4
    x = LEFT
    built = "wide query" if left_fill == "mark" else "query"
    x = _draw_matrix(canvas, x, second_row, tall, left, left_fill, built) + GAP
    x = _draw_matrix(
        canvas, x, second_row, tall, right, right_fill, "hidden, kept" if built == "wide query" else "keys, kept"
    )
    canvas.text(x + GAP / 2, second_row + CELL * tall / 2 + 5, "=", anchor="middle")
    _draw_matrix(canvas, x + GAP, second_row, tall, scores, "mid", "scores")
    canvas.text(LEFT, 20, "(query weights) hidden" if built == "wide query" else "query (weights hidden)", bold=True)
    return canvas


def _draw_matrix(canvas: Canvas, x: float, y: float, tall: int, matrix: np.ndarray, fill: str, name: str) -> float:
    """Cells, centred on the row that is `tall` cells high, its name above it; returns where it ends."""
    rows, columns = matrix.shape
    top = y + CELL * (tall - rows) / 2
    for k, row in enumerate(matrix):
        canvas.row(x, top + CELL * k, [f"{v:g}" for v in row], fill, width=CELL, height=CELL)
    canvas.text(max(x, min(x, canvas.width - LETTER * len(name))), top - 6, name)
    return x + CELL * columns
