"""Which key/value head each query head reads, found out by asking the function, and drawn as a fan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .canvas import Canvas
from .figure import Figure, scrub

WIDTH, HEIGHT, LEFT, TOP, APART = 44, 26, 8, 40, 96  # pixels


def who_reads(attend: Callable, H: int, G: int) -> list[int]:
    """The key/value head of each query head: values of head g are all g, so that results say whom they come from.

    attend: as in ops.py, attend(q_RHK, k_RGMK, v_RGMU, begin_R, end_R, scale).
    """
    q_RHK, k_RGMK = np.ones((1, H, 1)), np.ones((1, G, 1, 1))
    v_RGMU = np.arange(G, dtype=float).reshape(1, G, 1, 1)
    return [round(v) for v in attend(q_RHK, k_RGMK, v_RGMU, np.zeros(1, int), np.ones(1, int), 1.0).ravel().tolist()]


def draw_fan(readings: Sequence[tuple[str, Sequence[int]]], *, name: str, caption: str, alt: str) -> Figure:
    """A frame for each (label, key/value head of each query head); a head that no query reads is not drawn."""
    most = max(len(groups) for _, groups in readings)
    frames = []
    for label, groups in readings:
        canvas, G = Canvas(2 * LEFT + WIDTH * most, TOP + APART + HEIGHT + 12), max(groups) + 1
        spread = WIDTH * most / G
        canvas.text(LEFT, 22, f"{len(groups)} query heads, {G} of keys and values", bold=True)
        for h, g in enumerate(groups):
            x = LEFT + WIDTH * h
            canvas.line(x + WIDTH / 2, TOP + HEIGHT, LEFT + spread * (g + 0.5), TOP + APART, thick=1.5)
            canvas.cell(x, TOP, "pale", f"q{h}", width=WIDTH, height=HEIGHT, tip=f"query head {h} reads {g}")
        for g in range(G):
            at = LEFT + spread * (g + 0.5) - WIDTH / 2
            canvas.cell(at, TOP + APART, "strong", f"kv{g}", width=WIDTH, height=HEIGHT)
        frames.append((label, canvas))
    return scrub(name, frames, caption=caption, alt=alt)
