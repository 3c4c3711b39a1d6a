"""Which positions each step works on, as a picture: the triangle of work, and the row that a cache makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .canvas import Canvas
from .figure import Figure, scrub

CELL, LEFT, TOP = 24, 60, 46  # pixels


def draw_work(
    logs: Mapping[str, Sequence[Iterable[int]]], *, name: str, caption: str, alt: str, does: str = "computed"
) -> Figure:
    """One panel for each log, a line for each step, a frame for each step more.

    logs: what it is called -> for each step, the positions that it worked on: a log that your own code kept. A position
    that an earlier step of the same log worked on already is drawn as work done again. does: what was done to it.
    """
    logs = {panel: [sorted(set(step)) for step in steps] for panel, steps in logs.items()}
    steps = max(map(len, logs.values()))
    positions = 1 + max(p for log in logs.values() for step in log for p in step)
    return scrub(
        name,
        [(_label_frame(logs, n, does), _draw_frame(logs, n, steps, positions, does)) for n in range(1, steps + 1)],
        caption=caption,
        alt=alt,
    )


def _label_frame(logs, shown: int, does: str) -> str:
    """What the frame's step adds."""
    counts = ", ".join(f"{panel} {len(log[shown - 1])}" for panel, log in logs.items() if shown <= len(log))
    return f"Step {shown}, positions {does}: {counts}."


def _draw_frame(logs, shown: int, steps: int, positions: int, does: str) -> Canvas:
    panel_width = CELL * positions + 20
    canvas = Canvas(LEFT + panel_width * len(logs), TOP + CELL * steps + 62)
    for k in range(shown):
        canvas.text(8, TOP + CELL * k + 17, f"step {k + 1}", bold=k == shown - 1)
    for panel, (title, log) in enumerate(logs.items()):
        x = LEFT + panel_width * panel
        canvas.text(x, 20, title, bold=True)
        seen: set[int] = set()
        for k, step in enumerate(log[:shown]):
            for p in range(positions):
                fill = "paper" if p not in step else "pale" if p in seen else "strong"
                captions = f"step {k + 1}, position {p}: {'not ' * (p not in step)}{does}{' again' * (p in seen)}"
                word = p if p in step else ""
                canvas.cell(x + CELL * p, TOP + CELL * k, fill, word, width=CELL, height=CELL, tip=captions)
            seen |= set(step)
        total = sum(map(len, log[:shown]))
        canvas.text(x, TOP + CELL * steps + 20, f"{total} so far")
    canvas.legend(LEFT, TOP + CELL * steps + 48, {"strong": f"{does} first", "pale": f"{does} again"})
    return canvas
