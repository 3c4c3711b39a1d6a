"""Two terminals, or more, that print the same text at their own pace."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from .canvas import LETTER, MOST_WIDE, Canvas
from .figure import Figure, scrub

LEFT, BAR, LINE = 8, 12, 18  # pixels


def draw_race(
    runs: Mapping[str, Sequence[tuple[float, str]]],
    *,
    name: str,
    caption: str,
    alt: str,
    unit: str = "s",
    prompt: str = "",
    most: int = 6,
) -> Figure:
    """A terminal for each run, as it stands at up to `most` moments.

    runs: what was run -> for each token when it was printed, and its text; in any unit, as long as all begin at 0.
    The moments: the first token of all, each time that a run ends, and between these as many as there is room for.
    """
    frames = [(_label_frame(runs, now, unit), _draw_frame(runs, now, prompt)) for now in moments_to_show(runs, most)]
    return scrub(name, frames, caption=caption, alt=alt)


def moments_to_show(runs: Mapping[str, Sequence[tuple[float, str]]], most: int) -> list[float]:
    """When there is something to see: the widest gap is halved until there are enough; widest by its factor, since much
    happens early."""
    moments = sorted({min(r[0][0] for r in runs.values()), *(r[-1][0] for r in runs.values())})
    while len(moments) < most and len(moments) > 1:
        k = max(range(len(moments) - 1), key=lambda i: moments[i + 1] / moments[i])
        moments.insert(k + 1, (moments[k] * moments[k + 1]) ** 0.5)
    return moments


def _label_frame(runs, now: float, unit: str) -> str:
    counts = "; ".join(f"{name} {sum(t <= now for t, _ in run)} of {len(run)} tokens" for name, run in runs.items())
    return f"After {now:,.3g} {unit}: {counts}." if now < 1000 else f"After {now:,.0f} {unit}: {counts}."


def _draw_frame(runs, now: float, prompt: str) -> Canvas:
    wide = int((MOST_WIDE - 4 * LEFT) / LETTER)
    lines = {n: len(textwrap.wrap(prompt + "".join(w for _, w in run), wide)) for n, run in runs.items()}
    canvas = Canvas(MOST_WIDE, sum(72 + LINE * n for n in lines.values()) + 4)
    y = 4
    for name, run in runs.items():
        printed = [word for t, word in run if t <= now]
        done, tall = len(printed) == len(run), 34 + LINE * lines[name]
        canvas.cell(LEFT, y, "paper", width=MOST_WIDE - 2 * LEFT, height=tall)
        canvas.cell(LEFT, y, "pale", width=MOST_WIDE - 2 * LEFT, height=22)
        canvas.text(2 * LEFT, y + 15, name, bold=True, role="on-pale")
        label = f"{len(printed)} of {len(run)} tokens" + ", done" * done
        canvas.text(MOST_WIDE - 2 * LEFT, y + 15, label, anchor="end", role="on-pale")
        shown = textwrap.wrap(prompt + "".join(printed), wide) or [""]
        for k, line in enumerate(shown):
            canvas.text(2 * LEFT, y + 40 + LINE * k, line)
        if not done:
            canvas.cell(
                2 * LEFT + LETTER * len(shown[-1]), y + 29 + LINE * (len(shown) - 1), "strong", width=7, height=14
            )
        canvas.cell(LEFT, y + tall + 6, "paper", width=MOST_WIDE - 2 * LEFT, height=BAR)
        width = (MOST_WIDE - 2 * LEFT) * len(printed) / len(run)
        canvas.cell(LEFT, y + tall + 6, "mark" if done else "strong", width=width, height=BAR)
        y += tall + 38
    return canvas
